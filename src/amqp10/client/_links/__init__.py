"""What senders and receivers share."""
