"""The commands on data sets: `noise`, `confusion`, `doctor`, `encode` and `list`."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from drpl.cli.answers import Examined, Listed, Noised, Wrote
from drpl.cli.app import answers, app, say, stoppable, wants_json
from drpl.cli.options import (
    CONFUSION,
    DATA,
    DEVICE,
    EXAMINE,
    LEARN,
    OOD,
    QUIET,
    READ,
    SEED,
    reads,
    repeat_reading,
    takes,
)
from drpl.data.sources import Engine, ReadOptions
from drpl.errors import ConfigError
from drpl.files import propose_folder
from drpl.registry import Entry

MOST_NAMED = 10  # classes in a command that is printed, if nobody asked for them
SEEN = ("features", "mirrored")  # options by which images are seen, not which there are
ENCODED = (*SEEN, "size", "download")  # what does not concern data that have vectors already


@app.command()
@answers
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
) -> Noised:
    """Write a data set with noise: labels, images, a manifest and a picture."""
    from drpl.data.sources import load, with_ood
    from drpl.files import check_apart, write_atomic
    from drpl.noise.write import write_noisy
    from drpl.report.noise_figure import draw_noise

    check_apart(out, data, ood)
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
    say(f"{done['wrong']} of {done['samples']} samples are wrong ({done['realised']:.2%})")
    say(f"see {out / 'noise.png'}; train with: drpl train {shlex.quote(str(readable))}")
    return Noised(
        samples=done["samples"],
        wrong=done["wrong"],
        rate=done["realised"],
        files=[readable, out / "noise.png"],
    )


@app.command()
@answers
@takes(learn=LEARN, read_options=READ)
def confusion(
    data: Annotated[str, DATA],
    out: Annotated[Path, typer.Option("--out", "-o", help="The .npz file to write.")],
    ood: Annotated[str | None, OOD] = None,
    networks: Annotated[int, typer.Option(help="How many networks to average.", min=1)] = 2,
    sources: Annotated[
        list[Path] | None,
        typer.Option(
            "--from",
            help="A finished run, .npz with probs and labels, or a matrix (.npy); no training.",
        ),
    ] = None,
    numbering: Annotated[
        Literal["files", "wordnet"],
        typer.Option(
            help="Of classes that a file does not name: as in the data set's files, or by sorted "
            "WordNet ids, as most networks trained on ImageNet have them."
        ),
    ] = "files",
    runs: Annotated[Path | None, typer.Option(help="Keep the networks in this folder.")] = None,
    *,
    learn: dict[str, Any],
    read_options: ReadOptions,
    device: Annotated[str | None, DEVICE] = None,
    quiet: Annotated[bool, QUIET] = False,
) -> Wrote:
    """Learn from clean data which classes look alike, for non-uniform noise."""
    from drpl.data.sources import load, with_ood
    from drpl.experiments.confusion import collect_confusion, learn_confusion, list_mistakes
    from drpl.files import check_apart
    from drpl.runs.experiment import Execution

    check_apart(out, data, ood)
    loaded = with_ood(load(data, read_options), ood)
    if sources:
        found = collect_confusion(loaded, sources, numbering)
    else:
        found = learn_confusion(
            loaded,
            networks=networks,
            runs=runs,
            execution=Execution(device=device, quiet=quiet),
            **learn,
        )
    found.write(out)
    say(f"wrote {out}: {len(found.classes)} classes; the most frequent mistakes are")
    for true, predicted, rate in list_mistakes(found, 5):
        say(f"  {true} -> {predicted} ({rate:.3f})")
    return Wrote(files=[out], counts={"classes": len(found.classes)})


@app.command()
@answers
@takes(read_options=EXAMINE)
def doctor(
    data: Annotated[str, DATA],
    *,
    read_options: ReadOptions,
    presets: Annotated[
        bool, typer.Option("--presets", help="Estimate the hours of every preset, too.")
    ] = False,
    times: Annotated[bool, typer.Option(hidden=True)] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Folder for duplicates.csv and outliers.csv; needs --features."
        ),
    ] = None,
) -> Examined:
    """Look a data set over before anything is trained: what is in it, and what is odd.

    With --features also near-duplicates, leaks into the test part, outliers and classes that look
    like one.
    """
    from drpl.analysis import doctor as practice
    from drpl.files import check_apart

    if out:
        check_apart(out, data)
    if out and not read_options.features:
        raise ConfigError("--out is for what features tell; add --features lite0")
    read_options = replace(read_options, skip_broken=True, several=True)
    timed = practice.list_presets() if presets or times else []
    loaded = practice.load_what_has_images(data, read_options)
    found = practice.examine(loaded, loaded.root, timed)
    if out and found.findings:
        found.findings.write(out)
    say(found)
    files = [out / "duplicates.csv", out / "outliers.csv"] if out and found.findings else []
    if files:
        say(f"wrote {' and '.join(map(str, files))}")
    chosen = loaded.origin.read_options.classes if loaded.origin else ()
    say(_advise_cleaning(data, read_options, chosen))
    return Examined(
        facts=dict(found.facts),
        warnings=found.warnings,
        presets={name: plan.seconds for name, plan in found.plans.items()},
        files=files,
    )


def _advise_cleaning(data: str, read_options: ReadOptions, chosen: Sequence[str]) -> str:
    """What to do next: the command that reads the same, where `chosen` are the classes with images.

    Classes that nobody named are in it unless they are many.
    """
    first = ""
    if chosen == read_options.classes or len(chosen) <= MOST_NAMED:
        read_options = replace(read_options, classes=tuple(chosen))
    else:
        first = "mend or remove the classes without images, or name the other "
        first += f"{len(chosen):,} with --classes; then "
    out = str(propose_folder(data))
    but = (*SEEN, "skip_broken", "download", *(["size"] if read_options.features else []))
    read = repeat_reading(read_options, *but)
    again = shlex.join(["drpl", "clean", data, "-o", out, *read])
    return f"{first}find its wrong labels, in ten minutes or the time you give it, with: {again}"


@app.command()
@answers
@takes(read_options={name: READ[name] for name in READ if name != "features"})
def encode(
    data: Annotated[str, DATA],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file: .npz, or .npy for x alone.")],
    encoder: Annotated[str, typer.Option(help="A name from `drpl list encoders`.")] = "lite0",
    *,
    read_options: ReadOptions,
    engine: Annotated[Engine, typer.Option(help="Who encodes; ray is a cluster.")] = "local",
    quiet: Annotated[bool, QUIET] = False,
) -> Wrote:
    """Write the vectors that a pretrained network makes of images."""
    from drpl.encoders.encode import check_ending, write_features
    from drpl.encoders.encode import encode as make_vectors
    from drpl.files import check_apart
    from drpl.runs.display import Display

    check_ending(out)
    check_apart(out, data)
    with stoppable(), Display(quiet=quiet) as display:
        # The vectors go from the store to the file; no more than a part is in memory.
        options = replace(read_options, engine=engine, progress=display.follow("encode"), memory=0)
        options = replace(options, several=True)
        made = make_vectors(data, encoder, mirrored=options.mirrored, read_options=options)
        display.notes(made.notes)
        write_features(made, out)
    next_one = [str(out)]
    if out.suffix == ".npy":
        next_one = [data, "--features", str(out), *repeat_reading(read_options, *ENCODED)]
    again = shlex.join(["drpl", "train", *next_one])
    dim = made.train.images.shape[0]
    say(f"wrote {out}: {len(made.train):,} vectors of {dim}; train with: {again}")
    counts = {"vectors": len(made.train), "numbers": dim}
    return Wrote(files=[out], counts=counts, notes=list(made.notes))


Kind = Literal[
    "methods",
    "datasets",
    "noises",
    "networks",
    "encoders",
    "detectors",
    "formats",
    "presets",
    "tables",
]


@app.command("list")
@answers
def list_names(
    kind: Annotated[Kind | None, typer.Argument(help="What to list; all by default.")] = None,
) -> Listed:
    """List methods, data sets, noises, networks, encoders, detectors, formats, presets, tables."""
    from drpl.config.compose import PRESETS
    from drpl.data.sources import SOURCES
    from drpl.registry import DATASETS, DETECTORS, ENCODERS, FORMATS, METHODS, NETWORKS, NOISES
    from drpl.report.paper import TABLES

    known: dict[Kind, Mapping[str, Entry | str]] = {
        "methods": METHODS,
        "datasets": {**DATASETS, **SOURCES},
        "noises": NOISES,
        "networks": NETWORKS,
        "encoders": {**ENCODERS, "FILE.npz": "features of your own, a row for each image"},
        "detectors": DETECTORS,
        "formats": FORMATS,
        "presets": PRESETS,
        "tables": TABLES,
    }
    names: dict[str, dict[str, str]] = {}
    for one in [kind] if kind else known:
        say(f"{one}:")
        names[one] = {
            name: entry if isinstance(entry, str) else entry.about
            for name, entry in known[one].items()
        }
        for name, about in names[one].items():
            say(f"  {name:<16} {about}")
    if kind == "encoders" and not wants_json():
        from drpl.encoders.measure import measure_encoders

        say("\n".join(measure_encoders()))
    return Listed(names=names)
