"""Reading logs, which keep their messages and number them: streams and Event Hubs."""
