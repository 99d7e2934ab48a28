"""Presets: one TOML file a method, numbers and their sources only."""
