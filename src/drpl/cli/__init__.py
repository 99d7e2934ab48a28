"""The command line: one thin file a group of commands."""

# Each module adds its commands to the application.
from drpl.cli import cleaning, data, grids, insight, report, train  # noqa: F401
from drpl.cli.app import app as app
