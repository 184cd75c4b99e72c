"""What happens after a loss: connecting again, restoring sessions and links."""
