"""From the address of a message to the queues that it goes into."""
