"""AMQP 0-9-1, 0-9 final and the draft before it: tables of methods, framings, and one engine for all three."""
