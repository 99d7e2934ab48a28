"""data/readers."""
