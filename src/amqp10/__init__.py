"""The AMQP client for structured concurrency."""
