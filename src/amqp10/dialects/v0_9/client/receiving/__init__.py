"""What a client's receiver holds: its consumers, the deliveries beyond its credit, and its recovers."""
