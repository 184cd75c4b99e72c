"""What a client's sender holds: the frames it writes, and its publishes that have no confirm."""
