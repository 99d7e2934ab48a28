"""Presets and settings become one typed, frozen configuration.

The base class of all configurations, the shipped presets (one TOML a method), and the settings
that follow from the data live here. It imports only the ground; everything that trains imports it.
"""
