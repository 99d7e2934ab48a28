"""The application that every command is added to, and what commands share."""

import csv
import io
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from drpl.cli.answers import Answer
from drpl.errors import ConfigError
from drpl.runs.machine import lower_priority

JOBS = {  # what a person comes for, and the commands for it, the most usual first
    "Clean": ("clean", "review", "apply", "doctor"),
    "Study": ("train", "detect", "compare", "score", "study", "reproduce", "look", "probe"),
    "Data": ("noise", "confusion", "encode", "list"),
    "Share": ("report", "figures", "predict", "export", "export-labels"),
}
EXIT_CODES = (
    "Exit codes: 0 all went well; 1 a part of the work failed, and what is said names it; 2 a "
    "mistake in the command or its data, in one sentence; 130 stopped by Ctrl-C."
)
# Typer has its own copy of click, or click's, and names but one of the errors.
USAGE_ERROR: Any = typer.BadParameter.__base__
_wants_json = ContextVar("wants_json", default=False)


class GroupByJob(TyperGroup):
    """Lists commands under what they are for, with whole sentences."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; what is wrong with its options is said in fewer words."""
        try:
            return super().invoke(ctx)
        except USAGE_ERROR as error:
            error.message = error.message.removeprefix("Value error, ")  # pydantic's
            if near := getattr(error, "possibilities", None):  # the nearest first
                error.possibilities = near[:1]
            raise

    def list_commands(self, ctx: Any) -> list[str]:
        """In the order of the jobs."""
        return [name for names in JOBS.values() for name in names]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """A section for each job."""
        for job, names in JOBS.items():
            rows = []
            for name in names:
                about = (self.commands[name].help or "").split("\n\n")[0]
                rows.append((name, " ".join(about.split())))
            with formatter.section(job):
                formatter.write_dl(rows, col_max=14)


app = typer.Typer(
    cls=GroupByJob,
    help="Learning from images whose labels can't be trusted.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
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


def answers(command: Callable[..., Answer | None]) -> Callable[..., None]:
    """A command that says what it found or, with `--json`, prints the answer that it returns.

    It returns None where another process answers.
    """
    option = typer.Option("--json", help="Print the answer as JSON.")
    asked = Parameter(
        "as_json", Parameter.KEYWORD_ONLY, default=False, annotation=Annotated[bool, option]
    )

    @wraps(command)
    def answering(*, as_json: bool = False, **given: Any) -> None:
        _wants_json.set(as_json)
        answer = command(**given)
        if answer is None:
            return
        if as_json:
            typer.echo(answer.model_dump_json(indent=2))
        if answer.exit_code:
            raise typer.Exit(answer.exit_code)

    own = signature(command)
    parameters = [*own.parameters.values(), asked]
    answering.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    answering.__annotations__ = {one.name: one.annotation for one in parameters}
    return answering


def wants_json() -> bool:
    """Whether the answer is asked for as JSON."""
    return _wants_json.get()


def say(text: object) -> None:
    """A line for people; with `--json` there is none."""
    if not wants_json():
        typer.echo(text)


def show(result: object) -> None:
    """Print a result as it shows itself in a terminal, or its plain text elsewhere."""
    if wants_json():
        return
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    if console.is_terminal:
        console.print(result)
    else:
        typer.echo(str(result))


def split_names(texts: list[str] | None) -> list[str]:
    """Every name that an option was given, alone or in a list with commas, as `join_names` has it.

    A name in quotes may have commas.
    """
    try:
        rows = [next(csv.reader([text], strict=True), []) or [""] for text in texts or ()]
    except csv.Error:
        raise ConfigError(
            f"cannot tell the names in {', '.join(texts or ())}: put a name with a comma or quotes "
            "into quotes, and double those in it"
        ) from None
    return [name for row in rows for name in row]


def join_names(names: Iterable[str]) -> str:
    """Names as one text that `split_names` takes apart again."""
    text = io.StringIO()
    csv.writer(text).writerow(names)  # its \r\n lets every version put a lone \r into quotes
    return text.getvalue().removesuffix("\r\n")


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
