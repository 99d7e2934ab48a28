"""Noise."""
