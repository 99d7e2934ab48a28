"""The commands `clean`, `review`, `export-labels` and `apply`."""

import contextlib
import getpass
import os
import shlex
import sys
import threading
import webbrowser
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drpl.cli.answers import (
    Applied,
    Cleaned,
    Interval,
    Reviewed,
    TagsCleaned,
    Wrote,
    list_suspicious,
)
from drpl.cli.app import answers, app, say, show, stoppable, wants_json
from drpl.cli.options import DATA, DEVICE, EXAMINE, QUIET, SEED, takes
from drpl.data.sources import ReadOptions
from drpl.errors import ConfigError

if TYPE_CHECKING:
    from drpl.cleaning.clean import Cleaning
    from drpl.cleaning.folder import CleanedFolder
    from drpl.cleaning.review.decision_log import DecisionLog

WORST = 10  # labels in the answer
FOLDER = typer.Argument(help="The folder that `drpl clean` wrote.")


@app.command()
@answers
@takes(read_options={name: EXAMINE[name] for name in EXAMINE if name != "features"})
def clean(
    data: Annotated[str, DATA],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write.")] = Path(
        "cleaned"
    ),
    budget: Annotated[
        str | None,
        typer.Option(help="Time for everything: 10m, 2h, 1h30m ... [default: 10m]."),
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option(help="Seeds to train with [default: as many as there is time for].", min=1),
    ] = None,
    seed: Annotated[int, SEED] = 1,
    features: Annotated[
        str,
        typer.Option(
            help="A pretrained network from `drpl list encoders` to see the images by; none: train "
            "on their pixels; auto: what suits them better."
        ),
    ] = "auto",
    decisions: Annotated[
        Path | None,
        typer.Option(
            help="decisions.csv of an earlier folder, or a file in a format from `drpl list "
            "formats`; what was decided there holds here."
        ),
    ] = None,
    *,
    read_options: ReadOptions,
    device: Annotated[str | None, DEVICE] = None,
    no_pictures: Annotated[
        bool, typer.Option("--no-pictures", help="Show no pictures in the terminal.")
    ] = False,
    quiet: Annotated[bool, QUIET] = False,
) -> Cleaned | TagsCleaned:
    """Find the wrong labels of your data, suggest right ones, and train a robust model."""
    from drpl.cleaning.progress import BUDGET, Overall
    from drpl.runs.display import parse_duration

    seconds = parse_duration(BUDGET if budget is None else budget)
    with stoppable(), Overall(seconds, quiet=quiet) as display:
        display.say("starting")
        from drpl.cleaning.clean import clean as find_issues  # loads torch, which takes seconds

        found = find_issues(
            data,
            out,
            budget=budget,
            repeats=repeats,
            seed=seed,
            features=features,
            read_options=replace(read_options, skip_broken=True),  # the summary names them
            device=device,
            decisions=decisions,
            display=display,
        )
    show(str(found) if no_pictures else found)
    return _answer(found)


def _answer(found: "Cleaning") -> Cleaned | TagsCleaned:
    """What `clean` found, for `--json`."""
    figures = found.figures
    if figures.get("several"):
        return TagsCleaned(
            folder=found.folder,
            samples=figures["samples"],
            issues=figures["issues"],
            kinds=figures["kinds"],
            notes=figures["notes"],
            worst=found.issues.head(WORST).to_dict("records"),
            report=found.folder / "report.html",
        )
    return Cleaned(
        folder=found.folder,
        samples=figures["samples"],
        noise_rate=Interval(**figures["noise rate"]),
        issues=figures["issues"],
        verdicts=figures["verdicts"],
        doubts=figures.get("doubts", []),
        notes=figures["notes"],
        worst=list_suspicious(found.issues.head(WORST)),
        report=found.folder / "report.html",
    )


@app.command()
@answers
def review(
    folder: Annotated[Path, FOLDER],
    port: Annotated[int, typer.Option(help="0: any free one.", min=0, max=65535)] = 0,
    no_open: Annotated[bool, typer.Option("--no-open", help="Open no browser.")] = False,
    reviewer: Annotated[str | None, typer.Option(help="Your name [default: the login].")] = None,
    who: Annotated[str | None, typer.Option(hidden=True)] = None,
    summary: Annotated[
        bool,
        typer.Option("--summary", help="Only say what was decided, and where people disagree."),
    ] = False,
    page: Annotated[
        Path | None, typer.Option(help="Write a page that needs no server to this HTML file.")
    ] = None,
    take: Annotated[
        Path | None,
        typer.Option(
            "--import",
            help="Take in decisions that such a page saved, or a file of another tool in a format "
            "from `drpl list formats`; --reviewer signs what nobody did.",
        ),
    ] = None,
) -> Reviewed:
    """Look at suspicious labels in the browser and decide on each."""
    from drpl.cleaning.folder import CleanedFolder
    from drpl.cleaning.review.decision_log import (
        MODEL,
        ActiveDecisions,
        read_decisions,
    )
    from drpl.cleaning.review.page import write_page

    cleaned = CleanedFolder.load(folder)
    if who:
        typer.echo("note: --who is called --reviewer now", err=True)
    name = (reviewer or who or _get_login()).encode("utf-8", "replace").decode()
    again = shlex.quote(str(folder))
    if name.strip() == MODEL:
        raise ConfigError(f"{MODEL!r} stands for the model in the audit; choose another name")
    if sum(map(bool, (page, take, summary))) > 1:
        raise ConfigError("--page, --import and --summary: ask for one at a time")
    if wants_json() and not (page or take or summary):
        raise ConfigError("--json of a review goes with --summary, --page or --import")
    lines: list[str] = []
    if summary:
        from drpl.cleaning.review.agreement import summarize_review

        told = summarize_review(cleaned, ActiveDecisions(read_decisions(cleaned)))
        lines += told.splitlines()
    elif page:
        written, every = write_page(cleaned, page, name), len(cleaned.issues)
        part = "" if written == every else f", the worst of {every:,}"
        lines.append(f"wrote {page} with {written:,} issues{part}")
        lines.append(f"take in what it saves with: drpl review {again} --import decisions.csv")
    elif take:
        from drpl.cleaning.exchange.exchange import take_in

        taken = take_in(cleaned, take, name)
        were = "was" if taken.old == 1 else "were"
        old = f"; {taken.old:,} {were} there already" if taken.old else ""
        what = "1 decision" if taken.new == 1 else f"{taken.new:,} decisions"
        lines.append(f"took in {what}{old}")
        lines += [f"note: {note}" for note in taken.notes]
    else:
        _serve(cleaned, port, no_open, name)
        lines.append(f"write the corrected data set with: drpl apply {again}")
    for line in lines:
        say(line)
    decided = ActiveDecisions(read_decisions(cleaned)).by_image()
    listed = sum(number in cleaned.issues.index for number in decided)
    return Reviewed(issues=len(cleaned.issues), decided=listed, lines=lines)


def _serve(cleaned: "CleanedFolder", port: int, no_open: bool, who: str) -> None:
    """Serve the page until Ctrl-C."""
    from drpl.cleaning.review.decision_log import DecisionLog

    try:
        from drpl.cleaning.review.server import Auth, build_server, open_socket
    except ImportError:
        raise ConfigError(
            "the review page needs starlette and uvicorn: pip install 'drpl[review]'; "
            "or write a page that needs no server with --page FILE.html"
        ) from None
    with DecisionLog(cleaned) as log, open_socket(port) as opened:
        auth, before = Auth(opened.getsockname()[1]), len(log.lines)
        say(f"{_count_issues(log)} at")
        say(f"  {auth.make_address()}")
        say("Every decision is saved at once. Stop with Ctrl-C.")
        sys.stdout.flush()  # also where it is no terminal: someone waits for the address
        if not no_open:
            _open_browser(auth.make_address(once=True))
        with contextlib.suppress(KeyboardInterrupt):
            build_server(log, who, auth).run(sockets=[opened])
        if len(log.lines) > before:
            _update_report(log)
        if len(cleaned.issues):
            say(f"\n{_count_decided(log):,} of {len(cleaned.issues):,} issues are decided")


def _update_report(log: "DecisionLog") -> None:
    """Let the report say what people decided."""
    from drpl.cleaning.reliability import update_report

    with contextlib.suppress(KeyboardInterrupt):  # it is whole or as it was
        update_report(log.cleaned, log.active.by_image())


def _count_issues(log: "DecisionLog") -> str:
    """How many there are to review."""
    count = len(log.cleaned.issues)
    if not count:
        return "No label is listed; look at any image"
    what = "1 issue" if count == 1 else f"{count:,} issues"
    return f"{what}, {_count_decided(log):,} decided; review {'it' if count == 1 else 'them'}"


def _count_decided(log: "DecisionLog") -> int:
    """How many issues are decided; decisions on other images do not count."""
    return sum(number in log.cleaned.issues.index for number in log.active.by_image())


@app.command("export-labels")
@answers
def export(
    folder: Annotated[Path, FOLDER],
    to: Annotated[str, typer.Option(help="A format from `drpl list formats`.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file or folder to write.")],
    issues: Annotated[
        bool, typer.Option("--issues", help="Only images that are suspicious or decided.")
    ] = False,
    images: Annotated[
        str | None,
        typer.Option(
            help="What Label Studio finds the images below, such as https://host/photos/ [default: "
            "their files, as its local storage]."
        ),
    ] = None,
) -> Wrote:
    """Write labels, predictions and decisions for another tool; `drpl review --import` is back."""
    from drpl.cleaning.exchange.exchange import export_labels

    written = export_labels(folder, to, out, issues_only=issues, prefix=images)
    say(f"wrote {out}: {written.images:,} images, {written.decided:,} decided")
    for note in written.notes:
        say(f"note: {note}")
    back = shlex.join(["drpl", "review", str(folder), "--import", str(out)])
    say(f"take in what was decided there with: {back}")
    counts = {"images": written.images, "decided": written.decided}
    return Wrote(files=[out], counts=counts, notes=list(written.notes))


@app.command()
@answers
def apply(
    folder: Annotated[Path, FOLDER],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder to write [default: DIR/corrected].")
    ] = None,
    links: Annotated[
        bool, typer.Option("--links", help="A folder of links for each class, not a list.")
    ] = False,
    accept_above: Annotated[
        float | None,
        typer.Option(
            help="Where nobody decided: take the suggested class of mislabelled images if both its "
            "probability (confidence in issues.csv) and the probability that the given label is "
            "wrong (p_noisy) are at least this.",
            min=0,
            max=1,
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")] = False,
) -> Applied:
    """Write the data set with the labels that were decided; the originals stay as they are."""
    from drpl.cleaning.apply import write
    from drpl.cleaning.correct import Correction
    from drpl.cleaning.folder import CleanedFolder

    correction = Correction.build(CleanedFolder.load(folder), accept_above)
    changes = [change._asdict() for change in correction.changes]
    if dry_run:
        for change in correction.changes:
            say(change.describe())
        say(f"would write: {correction.describe()}")
        return Applied(images=len(correction.labels), changes=changes, trainable=None)
    written = write(correction, out or folder / "corrected", links=links)
    say(correction.describe())
    for note in written.notes:
        say(f"note: {note}")
    say(f"train with: drpl train {shlex.quote(str(written.trainable))}")
    notes = list(written.notes)
    return Applied(
        images=len(correction.labels), changes=changes, trainable=written.trainable, notes=notes
    )


def _get_login() -> str:
    """The user's name on this machine, where it has one."""
    try:
        return getpass.getuser()
    except (KeyError, ImportError, OSError):
        return "unknown"


def _open_browser(address: str) -> None:
    """Open an address in a browser, if there is a screen."""
    if sys.platform in ("darwin", "win32") or {"DISPLAY", "WAYLAND_DISPLAY"} & set(os.environ):
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
