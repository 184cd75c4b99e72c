"""Messages of AMQP 1.0 as message transfers with their headers, and back."""
