"""The links of a peer: consumers, producers and the coordinator."""
