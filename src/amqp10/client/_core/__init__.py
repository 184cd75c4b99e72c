"""What all of the client stands on: how things end, in how much time, and what happens to a connection."""
