"""The command line. Heavy libraries are imported when a command needs them."""

from drpl.cli import grids as grids  # adds its commands to the others
from drpl.cli.commands import app as app
