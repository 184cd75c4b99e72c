"""Reading queues, in batch and streaming."""
