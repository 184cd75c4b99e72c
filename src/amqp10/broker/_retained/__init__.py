"""What a broker retains for clients that are away: subscriptions, links and sessions."""
