"""The command line: one thin file a group of commands.

A command reads its options, calls a library function with them, and says what came out. It may
import every other package, inside of commands what needs torch, so that help is there at once.
Only `drpl.__main__` imports it.
"""

# Each module adds its commands to the application.
from drpl.cli import cleaning, data, grids, insight, report, train  # noqa: F401
from drpl.cli.app import app as app
