"""Runs in, one self-contained HTML file out. Reads run folders and nothing else."""

import base64
import hashlib
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from statistics import mean
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from drpl.errors import ConfigError
from drpl.files import check_apart, check_page, read_text, write_atomic
from drpl.registry import is_oracle
from drpl.report import page_tables as tables
from drpl.report import text
from drpl.report.figures import draw_case, draw_run
from drpl.report.gallery import build_galleries
from drpl.report.load import (
    format_case,
    format_run,
    group_by_case,
    group_by_method,
    load_runs,
    read_document,
    read_samples,
)
from drpl.report.numbers import Numbers, tag_name
from drpl.report.style import DARK, assign_strokes
from drpl.runs.folder import Result

DETAILED = 3  # runs up to which every one is shown in detail
POLL = 1.0  # seconds between looks at folders that are watched
REST = 4  # and at least this many times what the last page took: training needs the machine


@dataclass(frozen=True)
class Section:
    """A part of the page that comes from elsewhere: its title and its HTML, taken as it is.

    `first`: before all figures.
    """

    title: str
    html: str
    first: bool = False


@dataclass(frozen=True)
class About:
    """What a page on data begins with: their name, and the most important in HTML, as it is.

    It is for who owns the data: what concerns runs, and all parts that are not `first`, are folded
    away for researchers.
    """

    name: str
    lead: str


def report(
    runs: Sequence[Result | Path | str],
    out: Path | str = "report.html",
    *,
    sections: Sequence[Section] = (),
    images: Path | str | None = None,
    reload: float | None = None,
    about: About | None = None,
) -> Path:
    """Write the page on these runs, or on the runs of a comparison's folder.

    `sections` are put after the runs, or first. `images` is the folder where the paths in
    `samples.csv` start, if the galleries shall be taken from files and not from what the run kept.
    With `reload` the page loads itself again after that many seconds. With `about` it is a page on
    data, not on methods.
    """
    if not runs:
        raise ConfigError("nothing to report: name at least one run")
    check_page(Path(out))
    root, loaded = Path(images) if images else None, load_runs(runs)
    check_apart(Path(out), *(run.source for run in loaded))
    write_atomic(Path(out), _render(loaded, sections, root, reload, about))
    return Path(out)


def watch(
    places: Sequence[Path | str],
    out: Path | str = "report.html",
    *,
    every: float = 5,
    images: Path | str | None = None,
) -> Iterator[int]:
    """Write the page again whenever a folder changes, until all runs are finished.

    Yields after each page how many runs still train.
    """
    before = None
    while True:
        began = time.monotonic()
        runs = load_runs(places)
        now = [_read_dates(run.folder) for run in runs]
        if now != before:
            training = sum(not run.finished for run in runs)
            over = not training and all(map(is_complete, map(Path, places)))
            report(runs, out, images=images, reload=None if over else every)
            yield training
            if over:
                return
            before = now
        time.sleep(max(POLL, REST * (time.monotonic() - began)))


def is_complete(place: Path) -> bool:
    """Whether nothing more is to come: a run by itself, or a comparison that wrote its table."""
    own = (place / "config.toml").exists()
    return own or (place / "table.md").exists() or not (place / "runs").is_dir()


def _read_dates(folder: Path) -> list[tuple[str, int]]:
    """Changes when what the page shows does."""
    shown = ("history.jsonl", "result.json", "samples.npz", "scores.csv", "splits", "evidence")
    paths = [folder / name for name in shown]
    return [(path.name, path.stat().st_mtime_ns) for path in paths if path.exists()]


def _render(
    runs: Sequence[Result],
    sections: Sequence[Section],
    root: Path | None,
    reload: float | None,
    about: About | None,
) -> str:
    """The page as text; equal folders give equal text."""
    numbers, strokes = Numbers(runs), assign_strokes([run.method for run in runs])
    done = [run for run in runs if run.finished]
    training = [run for run in runs if not run.finished]
    detailed, cases = _choose_detailed(runs), group_by_case(runs)
    firsts = [seeds[0] for mine in cases.values() for seeds in group_by_method(mine).values()]
    template = files("drpl.report").joinpath("page.html").read_text("utf-8")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {
        "name": tag_name,
        "svg": lambda picture: Markup(picture.render_svg()),  # noqa: S704  ours
    }
    return environment.from_string(template).render(
        title=_choose_title(runs, about),
        about=about,
        policy=_write_policy(template),
        dark=Markup(DARK),  # noqa: S704  ours
        reload=reload,
        training=training,
        numbers=numbers,
        read_samples=read_samples,
        summaries={format_case(case): _summarize(numbers, mine) for case, mine in cases.items()},
        notes=_collect_notes(runs),
        progress=tables.tabulate_progress(numbers, training) if training else None,
        results=tables.tabulate_results(numbers, done) if done else None,
        cases=[
            (format_case(case), list(draw_case(case, mine, strokes)))
            for case, mine in cases.items()
        ],
        details=[_show_run(numbers, run, root) for run in detailed],
        sections=sections,
        every=tables.tabulate_runs(numbers, runs),
        unknown=text.list_unknown(numbers, runs, detailed),
        settings=[(format_run(run), _read_settings(run)) for run in firsts],
        made=[(format_run(run), text.format_command(run), _list_versions(run)) for run in firsts],
    )


def _choose_title(runs: Sequence[Result], about: About | None) -> str:
    """What the page is about."""
    if about:
        return about.name
    return format_run(runs[0]) if len(runs) == 1 else "comparison of methods"


def _choose_detailed(runs: Sequence[Result]) -> list[Result]:
    """All runs if they are few; else of each noise the first seed of what detects best."""
    if len(runs) <= DETAILED:
        return list(runs)
    chosen = []
    for mine in group_by_case(runs).values():
        methods = group_by_method([run for run in mine if run.finished])
        able = [seeds for method, seeds in methods.items() if not is_oracle(method)]
        if able:
            chosen.append(max(able, key=_rate_detection)[0])
    return chosen or list(runs[:1])


def _rate_detection(seeds: Sequence[Result]) -> tuple[float, float]:
    """How well a method detects, then how accurate it is."""
    areas = [(run.detection or {}).get("auroc") or 0 for run in seeds]
    return mean(areas), mean(run.accuracy["last"] or 0 for run in seeds)


def _summarize(numbers: Numbers, runs: Sequence[Result]) -> Result | list[Markup]:
    """Sentences on the runs of a case; where there is but one, the run to speak of."""
    return runs[0] if len(runs) == 1 else text.summarize_case(numbers, runs)


def _collect_notes(runs: Sequence[Result]) -> list[str]:
    """What runs found doubtful, each sentence once."""
    notes = []
    for run in runs:
        s = run.summary
        notes += [f"{s['dataset']}: {note}" for note in s["notes"]]
        for stage in s["stages"]:
            head = f"{format_run(run)}, {stage['stage']}"
            notes += [f"{head}: {note}" for note in stage["notes"]]
    return list(dict.fromkeys(notes))


def _show_run(numbers: Numbers, run: Result, root: Path | None) -> dict[str, Any]:
    """All that is shown of one run."""
    return {
        "title": format_run(run),
        "pictures": list(draw_run(run)),
        "splits": tables.tabulate_splits(numbers, run),
        "outcomes": tables.tabulate_outcomes(numbers, run),
        "galleries": build_galleries(numbers, run, root),
        "classes": tables.tabulate_classes(numbers, run),
        "suspicious": tables.tabulate_suspicious(numbers, run),
    }


def _read_settings(run: Result) -> str:
    """The settings of a run as its folder has them."""
    path = run.folder / "config.toml"
    return read_text(path) if path.exists() else "There is no config.toml in the folder."


def _list_versions(run: Result) -> str:
    """Where and by which versions a run was made."""
    made = read_document(run, "provenance.json")
    about = {**(run.summary["versions"] or made.get("versions", {}))}
    about |= {k: made[k] for k in ("device", "processes", "threads", "cores") if k in made}
    return ", ".join(f"{key} {value}" for key, value in about.items())


def _write_policy(template: str) -> str:
    """What a browser may do with the page: show it, run its own scripts, fetch nothing."""
    scripts = re.findall(r"<script>(.*?)</script>", template, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src {allowed}; base-uri 'none'; form-action 'none'"
    )
