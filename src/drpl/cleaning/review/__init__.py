"""cleaning/review."""
