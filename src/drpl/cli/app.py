"""The application that every command is added to, and what commands share."""

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

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
    version: Annotated[bool, typer.Option("--version", help="Show the version and leave.")] = False,
) -> None:
    """Options of the command itself."""
    if version:
        from drpl import __version__

        typer.echo(__version__)
        raise typer.Exit
