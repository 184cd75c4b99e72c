"""The ends of links, and what they count: credit, windows, dispositions."""
