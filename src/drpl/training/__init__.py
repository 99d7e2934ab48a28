"""Training: the stage, its feed, its schedule, and the only loop."""
