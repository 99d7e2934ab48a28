"""The command line. Heavy libraries are imported when a command needs them."""

from drpl.cli import cleaning as cleaning  # these add their commands to the others
from drpl.cli import grids as grids
from drpl.cli import insight as insight
from drpl.cli.commands import app as app
