"""What several dialects share of their messages: limits, the mapping to 1.0, and values."""
