"""Links that are resumed, with the deliveries that are not settled (§2.6.13)."""
