"""The application that every command is added to, and what commands share."""

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from drpl.errors import ConfigError
from drpl.runs.machine import lower_priority

app = typer.Typer(
    help="Learning from images whose labels can't be trusted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@contextmanager
def stoppable() -> Iterator[None]:
    """Ctrl-C leaves what the same command continues."""
    try:
        yield
    except KeyboardInterrupt:
        again = shlex.join(["drpl", *sys.argv[1:]])
        typer.echo(f"\nStopped. What was finished is kept; go on with:\n  {again}", err=True)
        raise typer.Exit(130) from None


def split_names(texts: list[str] | None) -> list[str]:
    """Every name that an option was given, alone or in a list with commas."""
    return [name for text in texts or () for name in text.split(",")]


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and leave.")] = False,
    nice: Annotated[
        bool,
        typer.Option("--nice", help="Let other programs go first: drpl --nice clean photos ..."),
    ] = False,
) -> None:
    """Options of the command itself."""
    if version:
        from drpl import __version__

        typer.echo(__version__)
        raise typer.Exit
    if context.invoked_subcommand is None:
        raise ConfigError("--nice needs a command after it, for example: drpl --nice clean photos")
    if nice and not lower_priority():
        typer.echo("note: --nice has no effect on this system", err=True)
