"""What a broker retains for absent clients: subscriptions, links and sessions."""
