"""The commands that look into trained models: `look` and `probe`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from drpl.cli.answers import Looked, Probed
from drpl.cli.app import answers, app, say
from drpl.cli.options import CONFUSION, LIMIT, OOD, READ, takes
from drpl.data.sources import ReadOptions

PLACE = {name: READ[name] for name in ("data_dir", "outside")}


@app.command()
@answers
@takes(read_options={"size": READ["size"], "limit": READ["limit"], **PLACE})
def look(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    images: Annotated[
        list[int] | None,
        typer.Option(
            "--image",
            help="An id from samples.csv; may be repeated [default: wrong labels that were "
            "memorised, or else the most suspicious].",
        ),
    ] = None,
    count: Annotated[int, typer.Option(help="How many, without --image.", min=1, max=50)] = 6,
    data: Annotated[
        str | None, typer.Option(help="The run's data set [default: as its folder says].")
    ] = None,
    ood: Annotated[str | None, OOD] = None,
    confusion: Annotated[Path | None, CONFUSION] = None,
    *,
    read_options: ReadOptions,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder to write [default: RUN/look].")
    ] = None,
) -> Looked:
    """Show where a model sees an image's given label and where its true or suggested class."""
    from drpl.analysis.cam import look as see

    folder = out or run / "look"
    given: dict[str, Any] = {"read_options": read_options, "ood": ood, "confusion": confusion}
    images_seen = []
    for one in see(run, images or (), data, count=count, out=folder, **given):
        shows = f", shows {one.shows}" if one.shows else ""
        say(
            f"image {one.id}{shows}: given {one.given} (p {one.p_given:.3f}), "
            f"{one.role} {one.other} (p {one.p_other:.3f})"
        )
        names = ("id", "shows", "given", "p_given", "role", "other", "p_other")
        images_seen.append({name: getattr(one, name) for name in names})
    say(f"wrote look.png, look.svg and look.csv to {folder}")
    files = [folder / f"look.{kind}" for kind in ("png", "svg", "csv")]
    return Looked(images=images_seen, files=files)


@app.command()
@answers
@takes(read_options=PLACE)
def probe(
    runs: Annotated[list[Path], typer.Argument(help="Folders of finished runs.")],
    target: Annotated[
        str, typer.Option(help="A data set of other classes, which the features are to separate.")
    ],
    classes: Annotated[
        list[str] | None,
        typer.Option(
            help="A class of the target, or of those outside it, by name; may be repeated "
            "[default: its own classes]."
        ),
    ] = None,
    limit: Annotated[int | None, LIMIT] = None,
    *,
    read_options: ReadOptions,
    seed: Annotated[int, typer.Option(help="Of the split and the untrained network.")] = 1,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder to write probes.csv and a figure to.")
    ] = Path("probes"),
) -> Probed:
    """Measure how well the features after each block of trained networks separate classes."""
    from drpl.analysis.probe import format_probes
    from drpl.analysis.probe import probe as measure

    chosen: dict[str, Any] = {
        "classes": classes or (),
        "limit": limit,
        "read_options": read_options,
        "seed": seed,
    }
    found = measure(runs, target, out=out, **chosen)
    say(format_probes(found.table))
    for note in found.notes:
        say(f"note: {note}")
    say(f"wrote probes.csv, probes.png and probes.svg to {out}")
    files = [out / f"probes.{kind}" for kind in ("csv", "png", "svg")]
    return Probed(rows=found.table.to_dict("records"), files=files, notes=list(found.notes))
