"""A method and a detector for drpl, which finds them by the entry points in pyproject.toml."""
