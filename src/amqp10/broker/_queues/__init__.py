"""Nodes that hold messages: queues, topics and streams. They know no link, no peer and no store."""
