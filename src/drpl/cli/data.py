"""The commands on data sets: `noise`, `confusion`, `doctor` and `list`."""

import shlex
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from drpl.cli.app import app, split_names
from drpl.cli.options import CONFUSION, DATA, DEVICE, OOD, PRESET, QUIET, SEED, SET, reads
from drpl.config.compose import parse_settings
from drpl.data.sources import ReadOptions
from drpl.registry import Entry


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
    from drpl.report.noise_figure import draw_noise

    loaded = with_ood(load(data, read_options), ood)
    first, second = (
        Path(where) if where and Path(where).is_dir() else None for where in (data, ood)
    )
    where = second or first  # an outside that came with the data shares its root
    copy = write_noisy(
        loaded, noise, out, seed=seed, confusion=confusion, root=first, ood_root=where
    )
    figure = draw_noise(copy.title, copy.matrix, copy.rows, copy.columns, copy.samples)
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
    from drpl.experiments.confusion import collect_confusion, learn_confusion, worst
    from drpl.runs.experiment import Execution

    loaded = with_ood(load(data, read_options), ood)
    if sources:
        found = collect_confusion(loaded, sources)
    else:
        found = learn_confusion(
            loaded,
            networks=networks,
            seed=seed,
            runs=runs,
            preset=split_names(preset),
            settings=parse_settings(settings or ()),
            execution=Execution(device=device, quiet=quiet),
        )
    found.write(out)
    typer.echo(f"wrote {out}: {len(found.classes)} classes; the most frequent mistakes are")
    for true, predicted, rate in worst(found, 5):
        typer.echo(f"  {true} -> {predicted} ({rate:.3f})")


@app.command()
@reads
def doctor(
    data: Annotated[str, DATA],
    *,
    read_options: ReadOptions,
    times: Annotated[bool, typer.Option(help="Estimate the time of every preset.")] = True,
) -> None:
    """Look a data set over before training: what is in it, what is odd, what it will take."""
    from drpl.analysis import doctor as practice
    from drpl.data.sources import load

    read_options = replace(read_options, skip_broken=True)
    path = Path(data)
    root = path if path.is_dir() else path.parent if path.is_file() else None
    presets = practice.list_presets() if times else []
    typer.echo(practice.examine(load(data, read_options), root, presets).text())


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
