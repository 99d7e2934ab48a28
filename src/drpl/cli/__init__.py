"""The command line: one thin file a group of commands.

A command reads its options, builds the records that a library function takes, calls it, and says
what came out. It imports everything, heavy packages only within a command; nothing imports it.
"""

from drpl.cli import cleaning as cleaning  # each adds its commands to the application
from drpl.cli import data as data
from drpl.cli import grids as grids
from drpl.cli import insight as insight
from drpl.cli import report as report
from drpl.cli import train as train
from drpl.cli.app import app as app
