"""Event Hubs: hubs made of streams, their readers and management nodes."""
