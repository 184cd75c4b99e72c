"""Event Hubs: hubs on streams, their readers and management nodes."""
