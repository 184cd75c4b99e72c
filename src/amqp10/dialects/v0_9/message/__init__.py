"""Messages of AMQP 1.0 as properties, headers and body of the basic class, and back."""
