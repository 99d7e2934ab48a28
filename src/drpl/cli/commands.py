"""One thin function a command."""

import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drpl.cli.read_options import reads
from drpl.data.sources import ReadOptions
from drpl.registry import Entry

if TYPE_CHECKING:
    import pandas as pd

    from drpl.runs.dry_run import Plan
    from drpl.runs.folder import Result

app = typer.Typer(
    help="Learning from images whose labels can't be trusted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

DATA = typer.Argument(help="A name or a kind of file or folder from `drpl list datasets`.")
METHOD = typer.Option(help="A name from `drpl list methods`.")
NOISE = typer.Option(help="Corrupt the labels first: uniform:0.6, uniform:0.2+ood:0.2 ...")
OOD = typer.Option(help="A data set of other classes, for out-of-distribution noise.")
CONFUSION = typer.Option(help="Which classes look alike: a file from `drpl confusion`.")
PRESET = typer.Option(help="Settings by name or TOML file; several are laid over each other.")
SET = typer.Option("--set", help="Change one setting, for example relabel.begin=20.")
SEED = typer.Option(help="Decides every random draw.")
OUT = typer.Option(help="The run's folder [default: runs/DATA-NOISE/METHOD/seed-SEED].")
DEVICE = typer.Option(help="cpu, cuda, cuda:1 ... [default: a GPU if there is one].")
SAVE = typer.Option(help="Seconds between checkpoints.", min=0)
TRACK = typer.Option(
    help="Observe every sample's loss each so many epochs; 0: at ends only.", min=0
)
LOG = typer.Option(help="Show the epochs elsewhere too: tensorboard, wandb; may be repeated.")
DRY = typer.Option("--dry-run", help="Only say what the run would take on this machine.")
QUIET = typer.Option("--quiet", "-q", help="Show no progress.")


def define(goal: str, about: str) -> None:
    """The commands `train` and `detect`, which differ in how far they go."""

    @app.command(goal, help=about)
    @reads
    def command(
        data: Annotated[str, DATA],
        method: Annotated[str, METHOD] = "drpl",
        noise: Annotated[str | None, NOISE] = None,
        ood: Annotated[str | None, OOD] = None,
        confusion: Annotated[Path | None, CONFUSION] = None,
        preset: Annotated[list[str] | None, PRESET] = None,
        settings: Annotated[list[str] | None, SET] = None,
        seed: Annotated[int, SEED] = 1,
        out: Annotated[Path | None, OUT] = None,
        *,
        read_options: ReadOptions,
        device: Annotated[str | None, DEVICE] = None,
        save_every: Annotated[float, SAVE] = 10.0,
        track_every: Annotated[int, TRACK] = 0,
        log: Annotated[list[str] | None, LOG] = None,
        dry_run: Annotated[bool, DRY] = False,
        quiet: Annotated[bool, QUIET] = False,
    ) -> None:
        carry_out(goal, **{name: value for name, value in locals().items() if name != "goal"})


define("train", "Train a robust model and list the wrong labels.")
define("detect", "List the wrong labels only; `train` in the same folder goes on from there.")


FOLDER = ("out", "save_every", "track_every", "log", "quiet")  # of no concern to a dry run


def carry_out(
    goal: str,
    *,
    data: str,
    read_options: ReadOptions,
    preset: list[str] | None,
    settings: list[str] | None,
    log: list[str] | None,
    dry_run: bool,
    **more: object,
) -> None:
    """Train, and say what came out."""
    from drpl import distributed
    from drpl.data.sources import load
    from drpl.runs import execute as pipeline
    from drpl.runs import loggers
    from drpl.runs.dry_run import dry_run as plan

    chosen = {
        "preset": named(preset),
        "settings": settings or (),
        "log": loggers.wanted(named(log)),  # a missing package is told before the data are read
        **more,
    }
    with stoppable(), distributed.processes():
        source = load(data, read_options)
        if dry_run:
            wanted = {key: value for key, value in chosen.items() if key not in FOLDER}
            typer.echo(forecast(plan(source, goal=goal, **wanted)))  # type: ignore[arg-type]
            return
        result = pipeline.train(source, goal=goal, **chosen)  # type: ignore[arg-type]
        if distributed.rank() == 0:
            typer.echo(summary(result))


@contextmanager
def stoppable() -> Iterator[None]:
    """Ctrl-C leaves what the same command continues."""
    try:
        yield
    except KeyboardInterrupt:
        again = shlex.join(["drpl", *sys.argv[1:]])
        typer.echo(f"\nStopped. What was finished is kept; go on with:\n  {again}", err=True)
        raise typer.Exit(130) from None


def named(words: list[str] | None) -> list[str]:
    """Every name that an option was given, alone or in a list with commas."""
    return [name for text in words or () for name in text.split(",")]


def forecast(plan: "Plan") -> str:
    """What a run would take."""
    head = f"{'stage':<16}{'epochs':>8}{'steps':>8}{'batch':>7}{'hours':>10}"
    rows = [
        f"{p.stage:<16}{p.epochs:>8}{p.steps:>8}{p.batch_size:>7}{p.seconds / 3600:>10.3f}"
        for p in plan.stages
    ]
    epochs, hours = sum(p.epochs for p in plan.stages), plan.seconds / 3600
    total = f"{'all':<16}{epochs:>8}{'':>15}{hours:>10.3f}"
    memory = f"memory at the peak: {plan.memory / 2**30:.2f} GiB"
    return "\n".join(
        [head, *rows, total, memory, "hours are reckoned from a few steps here and now"]
    )


def summary(result: "Result") -> str:
    """A finished run in a few lines."""
    s = result.summary
    noise = f", noise {s['noise']['spec']}" if s["noise"]["spec"] else ""
    lines = [f"{s['method']} on {s['dataset']}{noise}, seed {s['seed']}"]
    if result.accuracy["last"] is not None:
        lines.append(
            f"accuracy   {result.accuracy['last']:.2f} % last, {result.accuracy['best']:.2f} % best"
        )
    lines.append(f"flagged    {s['flagged']} of {s['samples']} labels")
    if result.detection:
        shown = (
            f"{key} {value:.3f}" for key, value in result.detection.items() if value is not None
        )
        lines.append("detection  " + ", ".join(shown))
    lines += [
        f"note       {stage['stage']}: {note}" for stage in s["stages"] for note in stage["notes"]
    ]
    lines.append("suspicious")
    for row in result.suspicious(10).itertuples():
        where = row.path or f"image {row.id}"
        lines.append(
            f"  {where}: {row.given_label} -> {row.suggested_label} (p noisy {row.p_noisy:.3f})"
        )
    lines.append(
        f"all is in {result.folder}; see it with: drpl report {shlex.quote(str(result.folder))}"
    )
    return "\n".join(lines)


@app.command()
def predict(
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    images: Annotated[
        list[Path], typer.Argument(help="Image files, folders, or lists with a column `path`.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="CSV file [default: the terminal].")
    ] = None,
    batch: Annotated[int, typer.Option(help="Images at a time.", min=1)] = 256,
    quiet: Annotated[bool, QUIET] = False,
) -> None:
    """Name what is on images, with probabilities, as CSV; exit code 1 if some can't be read."""
    from contextlib import nullcontext

    from drpl import files
    from drpl.data.locate import find_images
    from drpl.runs import model
    from drpl.runs.display import Display

    trained, wanted = model.load(run), list(find_images(images))
    batches, broken = model.classify(trained, wanted, batch), []
    silent = quiet or (out is None and sys.stdout.isatty())  # a bar would run through the table
    with (
        files.open_atomic(out) if out else nullcontext(sys.stdout.buffer) as file,
        Display(quiet=silent) as display,
    ):
        shown = display.count("predict", len(wanted))
        for number, (table, unread) in enumerate(batches):
            rows = table.to_csv(
                index=False, header=number == 0, float_format="%.6g", lineterminator="\n"
            )
            file.write(rows.encode())
            broken += unread
            shown.add(len(table) + len(unread))
    for complaint in broken:
        typer.echo(f"cannot read {complaint}", err=True)
    if broken:
        typer.echo(f"{len(broken)} of {len(wanted)} files could not be read", err=True)
        raise typer.Exit(1)


@app.command()
@reads
def noise(
    data: Annotated[str, DATA],
    noise: Annotated[str, typer.Option(help="For example uniform:0.2+ood:0.2.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write.")],
    ood: Annotated[str | None, OOD] = None,
    confusion: Annotated[Path | None, CONFUSION] = None,
    seed: Annotated[int, SEED] = 1,
    *,
    read_options: ReadOptions,
) -> None:
    """Write a data set with noise: labels, images, a manifest and a picture."""
    from drpl.data.sources import load, with_ood
    from drpl.files import write_atomic
    from drpl.noise.write import write_noisy
    from drpl.report.noise_figure import picture

    loaded = with_ood(load(data, read_options), ood)
    first, second = (
        Path(where) if where and Path(where).is_dir() else None for where in (data, ood)
    )
    where = second or first  # an outside that came with the data shares its root
    copy = write_noisy(
        loaded, noise, out, seed=seed, confusion=confusion, root=first, ood_root=where
    )
    figure = picture(copy.title, copy.matrix, copy.rows, copy.columns, copy.samples)
    write_atomic(out / "noise.png", figure)
    done = copy.manifest
    readable = out / "images" if (out / "images").is_dir() else out / "data.npz"
    typer.echo(f"{done['wrong']} of {done['samples']} samples are wrong ({done['realised']:.2%})")
    typer.echo(f"see {out / 'noise.png'}; train with: drpl train {shlex.quote(str(readable))}")


@app.command()
@reads
def confusion(
    data: Annotated[str, DATA],
    out: Annotated[Path, typer.Option("--out", "-o", help="The .npz file to write.")],
    ood: Annotated[str | None, OOD] = None,
    networks: Annotated[int, typer.Option(help="How many networks to average.", min=1)] = 2,
    sources: Annotated[
        list[Path] | None,
        typer.Option("--from", help="A finished run, or .npz with probs and labels; no training."),
    ] = None,
    runs: Annotated[Path | None, typer.Option(help="Keep the networks in this folder.")] = None,
    preset: Annotated[list[str] | None, PRESET] = None,
    settings: Annotated[list[str] | None, SET] = None,
    seed: Annotated[int, SEED] = 1,
    *,
    read_options: ReadOptions,
    device: Annotated[str | None, DEVICE] = None,
    quiet: Annotated[bool, QUIET] = False,
) -> None:
    """Learn from clean data which classes look alike, for non-uniform noise."""
    from drpl.data.sources import load, with_ood
    from drpl.experiments.confusion import collect, learn, worst

    loaded = with_ood(load(data, read_options), ood)
    if sources:
        found = collect(loaded, sources)
    else:
        chosen = {"preset": named(preset), "settings": settings or (), "device": device}
        found = learn(loaded, networks=networks, seed=seed, runs=runs, quiet=quiet, **chosen)
    found.write(out)
    typer.echo(f"wrote {out}: {len(found.classes)} classes; the most frequent mistakes are")
    for true, predicted, rate in worst(found, 5):
        typer.echo(f"  {true} -> {predicted} ({rate:.3f})")


@app.command()
def score(
    runs: Annotated[list[Path], typer.Argument(help="Folders of finished runs.")],
    detectors: Annotated[
        list[str] | None,
        typer.Option(
            "--detector",
            help="NAME from `drpl list detectors`, or NAME:THRESHOLD; may be repeated "
            "[default: all that the run's evidence allows].",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the table to this CSV file too.")
    ] = None,
) -> None:
    """Judge the labels of finished runs by several detectors; see scores.csv in their folders."""
    import pandas as pd

    from drpl import files
    from drpl.analysis import scoring

    tables = {}
    for run in runs:
        tables[str(run)] = table = scoring.score(run, named(detectors) or None)
        typer.echo(f"{run}\n{judgements(table)}\nwrote {run / 'scores.csv'}")
    if out:
        whole = pd.concat(tables, names=["run", "row"]).reset_index("run")
        files.write_atomic(out, whole.to_csv(index=False, float_format="%.6g", lineterminator="\n"))


def judgements(table: "pd.DataFrame") -> str:
    """What detectors make of a run; figures only where the truth is known."""
    judged, skipped = table[table.skipped == ""], table[table.skipped != ""]
    told = bool(judged.tpr.notna().any() or judged.fpr.notna().any())
    figures = ("auroc", "tpr", "fpr") if told else ()
    head = "".join(f"{figure.upper():>8}" for figure in figures)
    lines = [f"{'stage':<15} {'detector':<17} {'flagged':>7}{head}"]
    for row in judged.itertuples():
        cells = "".join(f"{getattr(row, figure):>8.4f}" for figure in figures).replace("nan", "  -")
        lines.append(f"{row.stage:<15} {row.detector:<17} {row.flagged:>7}{cells}")
    if told:
        lines.append("TPR: share of the clean labels that are kept; FPR: of the wrong ones")
    for reason, stages in skipped.groupby("skipped", sort=False).stage:
        lines.append(f"skipped on {', '.join(stages)}: {reason}")
    return "\n".join(lines)


RUNS = typer.Argument(help="Folders of runs, also while they train, or of `drpl compare`.")


@app.command()
def report(
    runs: Annotated[list[Path], RUNS],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write.")] = Path(
        "report.html"
    ),
    watch: Annotated[
        bool, typer.Option("--watch", help="Write it again while training runs, until it ends.")
    ] = False,
    images: Annotated[
        Path | None,
        typer.Option(help="Where the paths in samples.csv start, to take galleries from files."),
    ] = None,
) -> None:
    """Put runs on one HTML page: words, tables, figures and galleries."""
    from drpl.report import page

    if not watch:
        page.report(runs, out, images=images)
        typer.echo(f"wrote {out}")
        return
    try:
        for training in page.watch(runs, out, images=images):
            typer.echo(
                f"wrote {out}; " + (f"{training} still training" if training else "all ended")
            )
            sys.stdout.flush()
    except KeyboardInterrupt:
        page.report(runs, out, images=images)  # a last one, which does not load itself again
        typer.echo(f"\nStopped watching. {out} stays as it is.")


@app.command()
def figures(
    runs: Annotated[list[Path], RUNS],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write.")],
) -> None:
    """Write every figure of runs as SVG and PNG."""
    from drpl.report.figures import figures as write

    written = write(runs, out)
    typer.echo(f"wrote {len(written) // 2} figures as SVG and PNG to {out}")


@app.command()
@reads
def doctor(
    data: Annotated[str, DATA],
    *,
    read_options: ReadOptions,
    times: Annotated[bool, typer.Option(help="Reckon the time of every preset.")] = True,
) -> None:
    """Look a data set over before training: what is in it, what is odd, what it will take."""
    from drpl.analysis import doctor as practice
    from drpl.data.sources import load

    read_options = replace(read_options, skip_broken=True)
    path = Path(data)
    root = path if path.is_dir() else path.parent if path.is_file() else None
    presets = practice.all_presets() if times else []
    typer.echo(practice.examine(load(data, read_options), root, presets).text())


class Target(StrEnum):
    """What a model can be exported to."""

    ONNX = "onnx"
    TORCH = "torch"


@app.command()
def export(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write.")],
    to: Annotated[Target, typer.Option(help="onnx, or torch for a .pt2 file.")] = Target.ONNX,
) -> None:
    """Write a model, its preprocessing and its class names as one file that needs no drpl."""
    from drpl.runs.export import SHOWN
    from drpl.runs.export import export as write

    difference = write(run, out, to.value)
    typer.echo(f"wrote {out}; largest difference on {SHOWN} random samples: {difference:.1e}")


class Kind(StrEnum):
    """What can be listed."""

    METHODS = "methods"
    DATASETS = "datasets"
    NOISES = "noises"
    NETWORKS = "networks"
    DETECTORS = "detectors"
    PRESETS = "presets"
    TABLES = "tables"


@app.command("list")
def list_names(
    kind: Annotated[Kind | None, typer.Argument(help="What to list; all by default.")] = None,
) -> None:
    """List methods, data sets, noises, networks, detectors, presets and the paper's tables."""
    from drpl.config.compose import PRESETS
    from drpl.data.sources import SOURCES
    from drpl.registry import DATASETS, DETECTORS, METHODS, NETWORKS, NOISES
    from drpl.report.paper import TABLES

    known: dict[Kind, Mapping[str, Entry | str]] = {
        Kind.METHODS: METHODS,
        Kind.DATASETS: {**DATASETS, **SOURCES},
        Kind.NOISES: NOISES,
        Kind.NETWORKS: NETWORKS,
        Kind.DETECTORS: DETECTORS,
        Kind.PRESETS: PRESETS,
        Kind.TABLES: TABLES,
    }
    for one in [kind] if kind else list(Kind):
        typer.echo(f"{one.value}:")
        for name, entry in known[one].items():
            typer.echo(f"  {name:<16} {entry if isinstance(entry, str) else entry.about}")


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Show the version and leave.")] = False,
) -> None:
    """Options of the command itself."""
    if version:
        from drpl import __version__

        typer.echo(__version__)
        raise typer.Exit
