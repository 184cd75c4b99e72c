"""Messages of AMQP 1.0 as head and body, and back; termini as destinations."""
