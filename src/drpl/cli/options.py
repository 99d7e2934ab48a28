"""Options that several commands share; a group of them is one parameter of a command."""

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any

import typer

from drpl.cli.app import join_names, split_names
from drpl.config.compose import parse_settings
from drpl.data.sources import Hold, ReadOptions

DATA = typer.Argument(help="A name or a kind of file or folder from `drpl list datasets`.")
METHOD = typer.Option(help="A name from `drpl list methods`.")
NOISE = typer.Option(help="Corrupt the labels first: uniform:0.6, uniform:0.2+ood:0.2 ...")
OOD = typer.Option(help="A data set of other classes, for out-of-distribution noise.")
CONFUSION = typer.Option(
    help="Which classes look alike: a file from `drpl confusion`, or a plain matrix (.npy)."
)
PRESET = typer.Option(help="Settings by name or TOML file; several are laid over each other.")
SET = typer.Option("--set", help="Change one setting, for example relabel.begin=20.")
SEED = typer.Option(help="Decides every random draw.")
OUT = typer.Option(
    "--out", "-o", help="The run's folder [default: runs/DATA-NOISE/METHOD/seed-SEED]."
)
DEVICE = typer.Option(help="cpu, cuda, cuda:1 ... [default: a GPU if there is one].")
SAVE = typer.Option(help="Seconds between checkpoints, at least; 0: every epoch.", min=0)
TRACK = typer.Option(help="Pass over all samples every N epochs, for loss figures.", min=0)
LOG = typer.Option(help="Show the epochs in tensorboard, wandb or mlflow, too; may be repeated.")
DRY = typer.Option("--dry-run", help="Only say what the run would take on this machine.")
QUIET = typer.Option("--quiet", "-q", help="Show no progress.")

SIZE = typer.Option(help="Pixels a side that images are scaled to [default: as suits].", min=4)
LIMIT = typer.Option(help="Use at most N images of each part, evenly by class.", min=2)
DATA_DIR = typer.Option(help="Where named data sets are [default: $DRPL_DATA, or else ./data].")
DOWNLOAD = typer.Option("--download", help="Fetch what is not there: CIFAR, weights of encoders.")
OUTSIDE = typer.Option(help="A class to set aside for out-of-distribution noise; may be repeated.")
HOLD = typer.Option(
    help="Keep the pixels of files in memory, in a cache on disk, or decode the files each time; "
    "auto: in memory if they fit, else in a cache."
)
CACHE = typer.Option(help="Folder of that cache [default: .drpl-cache].")
FEATURES = typer.Option(
    help="Use vectors that a pretrained network makes of the images, not their pixels: a name from "
    "`drpl list encoders`, or an .npz of your own; --size is then what it sees."
)
SEEN_BY = typer.Option(
    help="Compare the images by vectors that a pretrained network makes of them: a name from `drpl "
    "list encoders`, or an .npz of your own; --size is then what it sees."
)
MIRRORED = typer.Option("--mirrored", help="Features of an image and its mirror image, averaged.")
PATH_COLUMN = typer.Option(help="Column of a list with the images' paths [default: by its name].")
LABEL_COLUMN = typer.Option(help="Column of a list with the labels [default: by its name].")
SEPARATOR = typer.Option(
    help="What is between several labels of an image, or json for lists in JSON; an empty text: "
    "one label each [default: by what the cells hold]."
)
PATTERN = typer.Option(
    help="Regular expression that finds the label in an image's path, as (?P<label>[a-z]+)_."
)
CLASSES = typer.Option(
    help="""Read these classes only: cat,dog; quotes are for a comma in a name: '"a, b",cat'."""
)
DEPTH = typer.Option(
    help="How far down the folders are that name classes; 2: labels are a/b [default: 1].", min=1
)
SKIP = typer.Option("--skip-broken", help="Leave out files that cannot be read.")
SKIPPED = typer.Option("--skip-broken", hidden=True)  # for commands that do so in any case

Command = Callable[..., Any]
Options = Mapping[str, tuple[Any, ...]]  # by name: type, default, and perhaps a parser


def takes(**groups: Options) -> Callable[[Command], Command]:
    """Give a command the options of each group in place of the parameter of that name.

    Such a parameter is keyword-only, and so is what follows it. Its value is a mapping of the
    options' values; that of `read_options` is a `ReadOptions`.
    """

    def decorate(command: Command) -> Command:
        parameters: list[Parameter] = []
        for parameter in signature(command).parameters.values():
            if parameter.name not in groups:
                parameters.append(parameter)
                continue
            for name, (hint, default, *_) in groups[parameter.name].items():
                kind = Parameter.KEYWORD_ONLY
                parameters.append(Parameter(name, kind, default=default, annotation=hint))

        @wraps(command)
        def with_options(**given: Any) -> Any:
            gathered: dict[str, Any] = {}
            for group, options in groups.items():
                gathered[group] = values = {name: given.pop(name) for name in options}
                for name, (_, _, *parsers) in options.items():
                    for parse in parsers:
                        values[name] = parse(values[name])
            if "read_options" in groups:
                gathered["read_options"] = ReadOptions(**gathered["read_options"])
            return command(**given, **gathered)

        with_options.__annotations__ = {one.name: one.annotation for one in parameters}
        with_options.__signature__ = signature(command).replace(parameters=parameters)  # type: ignore[attr-defined]
        return with_options

    return decorate


READ: Options = {
    "size": (Annotated[int | None, SIZE], None),
    "limit": (Annotated[int | None, LIMIT], None),
    "data_dir": (Annotated[Path | None, DATA_DIR], None),
    "download": (Annotated[bool, DOWNLOAD], False),
    "outside": (Annotated[list[str] | None, OUTSIDE], (), tuple),
    "hold": (Annotated[Hold, HOLD], "auto"),
    "cache": (Annotated[Path | None, CACHE], None),
    "skip_broken": (Annotated[bool, SKIP], False),
    "features": (Annotated[str | None, FEATURES], None),
    "mirrored": (Annotated[bool, MIRRORED], False),
    "path_column": (Annotated[str | None, PATH_COLUMN], None),
    "label_column": (Annotated[str | None, LABEL_COLUMN], None),
    "label_separator": (Annotated[str | None, SEPARATOR], None),
    "label_pattern": (Annotated[str | None, PATTERN], None),
    "classes": (Annotated[list[str] | None, CLASSES], None, split_names, tuple),
    "depth": (Annotated[int | None, DEPTH], None),
}
EXAMINE: Options = {  # of commands that leave out what cannot be read, and name it
    **READ,
    "features": (Annotated[str | None, SEEN_BY], None),
    "skip_broken": (Annotated[bool, SKIPPED], False),
}


def repeat_reading(read_options: ReadOptions, *but: str) -> list[str]:
    """The words by which a next command reads the same data, without the options in `but`."""
    plain = ReadOptions()
    words: list[str] = []
    for name in READ:
        value, flag = getattr(read_options, name), f"--{name.replace('_', '-')}"
        if name in but or value == getattr(plain, name):
            continue
        if name == "classes":
            words += [flag, join_names(value)]
        elif value is True:
            words.append(flag)
        else:
            for one in value if isinstance(value, tuple) else (value,):
                words += [flag, str(one)]
    return words


LEARN: Options = {  # how a network learns
    "preset": (Annotated[list[str] | None, PRESET], None, split_names),
    "settings": (Annotated[list[str] | None, SET], None, parse_settings),
    "seed": (Annotated[int, SEED], 1),
}
SETUP: Options = {  # what `train` and `detect` run
    "method": (Annotated[str, METHOD], "drpl"),
    "noise": (Annotated[str | None, NOISE], None),
    "ood": (Annotated[str | None, OOD], None),
    "confusion": (Annotated[Path | None, CONFUSION], None),
    **LEARN,
}
WORK: Options = {  # how that is carried out
    "device": (Annotated[str | None, DEVICE], None),
    "save_every": (Annotated[float, SAVE], 10.0),
    "track_every": (Annotated[int, TRACK], 0),
    "quiet": (Annotated[bool, QUIET], False),
}
reads = takes(read_options=READ)
