"""Service Bus: entities that hold messages, their receivers, rules and management nodes."""
