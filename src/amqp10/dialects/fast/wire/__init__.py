"""Commands, records and values as octets; messages in fragments."""
