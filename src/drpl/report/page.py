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
from drpl.files import write_atomic
from drpl.report import parts
from drpl.report import text as words
from drpl.report.figures import loaded, of_case, of_run
from drpl.report.numbers import Numbers
from drpl.report.runs import by_method, cases, document, find, named, title
from drpl.report.style import DARK, Picture, strokes
from drpl.runs.folder import Result

DETAILED = 3  # runs up to which every one is shown in detail
POLL = 1.0  # seconds between looks at folders that are watched
REST = 4  # and at least so many times what the last page took: training needs the machine


@dataclass(frozen=True)
class Section:
    """A part of the page that comes from elsewhere: its title and its HTML, taken as it is.

    `script` is one that the HTML brings and a browser may run. `first`: before all figures.
    """

    title: str
    html: str
    script: str = ""
    first: bool = False


def report(
    runs: Sequence[Result | Path | str],
    out: Path | str = "report.html",
    *,
    sections: Sequence[Section] = (),
    images: Path | str | None = None,
    reload: float | None = None,
) -> Path:
    """Write the page on these runs, or on the runs of a comparison's folder.

    `sections` are put after the runs, or first. `images` is the folder where the paths in
    `samples.csv` start, if the galleries shall be taken from files and not from what the run kept.
    With `reload` the page loads itself again after so many seconds.
    """
    if not runs:
        raise ConfigError("nothing to report: name at least one run")
    found, root = loaded(runs), Path(images) if images else None
    write_atomic(Path(out), rendered(found, sections, root, reload))
    return Path(out)


def watch(
    places: Sequence[Path | str], out: Path | str = "report.html", *, every: float = 5, **more: Any
) -> Iterator[int]:
    """Write the page again whenever a folder changes, until all runs are finished.

    Yields after each page how many runs still train.
    """
    before = None
    while True:
        began = time.monotonic()
        runs = find(places)
        now = [stamp(run.folder) for run in runs]
        if now != before:
            training = sum(not run.finished for run in runs)
            over = not training and all(map(complete, map(Path, places)))
            report(runs, out, reload=None if over else every, **more)
            yield training
            if over:
                return
            before = now
        time.sleep(max(POLL, REST * (time.monotonic() - began)))


def complete(place: Path) -> bool:
    """Whether nothing more is to come: a run by itself, or a comparison that wrote its table."""
    own = (place / "config.toml").exists()
    return own or (place / "table.md").exists() or not (place / "runs").is_dir()


def stamp(folder: Path) -> list[tuple[str, int]]:
    """Changes when what the page shows does."""
    shown = ("history.jsonl", "result.json", "samples.npz", "scores.csv", "splits", "evidence")
    paths = [folder / name for name in shown]
    return [(path.name, path.stat().st_mtime_ns) for path in paths if path.exists()]


def rendered(
    runs: Sequence[Result], sections: Sequence[Section], root: Path | None, reload: float | None
) -> str:
    """The page as text; equal folders give equal text."""
    numbers, look = Numbers(runs), strokes([run.summary["method"] for run in runs])
    done = [run for run in runs if run.finished]
    training = [run for run in runs if not run.finished]
    detailed = in_detail(runs)
    grouped = cases(runs)
    text = files("drpl.report").joinpath("page.html").read_text("utf-8")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"svg": lambda picture: Markup(picture.svg())}  # noqa: S704  ours
    return environment.from_string(text).render(
        title=title(runs[0]) if len(runs) == 1 else "comparison of methods",
        policy=policy(text, sections),
        dark=Markup(DARK),  # noqa: S704  ours
        reload=reload,
        training=training,
        summaries=summaries(numbers, grouped),
        notes=notes(runs),
        progress=parts.progress(numbers, training) if training else None,
        results=parts.results(numbers, done) if done else None,
        cases=[(named(case), list(of_case(case, mine, look))) for case, mine in grouped.items()],
        details=[detail(numbers, run, root) for run in detailed],
        first=given([one for one in sections if one.first]),
        sections=given([one for one in sections if not one.first]),
        every=parts.every_run(numbers, runs),
        unknown=words.unknown(numbers, runs, detailed),
        settings=[(title(run), read(run, "config.toml")) for run in first_seeds(runs)],
        made=[(title(run), words.command(run), origin(run)) for run in first_seeds(runs)],
    )


def in_detail(runs: Sequence[Result]) -> list[Result]:
    """All runs if they are few; else of each noise the first seed of what detects best."""
    if len(runs) <= DETAILED:
        return list(runs)
    chosen = []
    for mine in cases(runs).values():
        able = {
            method: seeds
            for method, seeds in by_method([run for run in mine if run.finished]).items()
            if not method.startswith(words.ORACLE)
        }
        if able:
            chosen.append(able[max(able, key=lambda method: merit(able[method]))][0])
    return chosen or list(runs[:1])


def merit(seeds: Sequence[Result]) -> tuple[float, float]:
    """How well a method detects, then how accurate it is."""
    areas = [(run.detection or {}).get("auroc") or 0 for run in seeds]
    return mean(areas), mean(run.accuracy["last"] or 0 for run in seeds)


def first_seeds(runs: Sequence[Result]) -> list[Result]:
    """One run for each data set, noise and method."""
    return [seeds[0] for mine in cases(runs).values() for seeds in by_method(mine).values()]


def summaries(
    numbers: Numbers, grouped: dict[tuple[str, str | None], list[Result]]
) -> list[tuple[str, list[Markup]]]:
    """Sentences on each case; on the run itself where a case has but one."""
    told = []
    for case, runs in grouped.items():
        if len(runs) == 1:
            told.append((named(case), words.told_run(numbers, runs[0])))
        else:
            told.append((named(case), words.told_case(numbers, runs)))
    return [(head, lines) for head, lines in told if lines]


def notes(runs: Sequence[Result]) -> list[str]:
    """What runs found doubtful, each sentence once."""
    found: dict[str, None] = {}
    for run in runs:
        s = run.summary
        found |= dict.fromkeys(f"{s['dataset']}: {note}" for note in s["notes"])
        for stage in s["stages"]:
            head = f"{title(run)}, {stage['stage']}"
            found |= dict.fromkeys(f"{head}: {note}" for note in stage["notes"])
    return list(found)


def detail(numbers: Numbers, run: Result, root: Path | None) -> dict[str, Any]:
    """All that is shown of one run."""
    found = parts.galleries(numbers, run, root)
    pictures: list[Picture] = list(of_run(run))
    return {
        "title": title(run),
        "pictures": pictures,
        "splits": parts.splits(numbers, run),
        "relabelled": parts.relabelled(numbers, run),
        "galleries": [] if isinstance(found, str) else found,
        "no_gallery": found if isinstance(found, str) else "",
        "health": parts.health(numbers, run),
        "suspicious": parts.suspicious(numbers, run),
    }


def read(run: Result, name: str) -> str:
    """A file of the folder as it is."""
    path = run.folder / name
    return path.read_text("utf-8") if path.exists() else f"There is no {name} in the folder."


def origin(run: Result) -> str:
    """Where and by which versions a run was made."""
    made = document(run, "provenance.json")
    versions = run.summary["versions"] or made.get("versions", {})
    lines = [f"{name} {number}" for name, number in versions.items()]
    lines += [
        f"{key} {made[key]}" for key in ("device", "processes", "threads", "cores") if key in made
    ]
    return ", ".join(lines)


def given(sections: Sequence[Section]) -> list[tuple[str, Markup]]:
    """Titles and HTML of sections."""
    return [(one.title, Markup(one.html)) for one in sections]  # noqa: S704  as it is


def policy(text: str, sections: Sequence[Section]) -> str:
    """What a browser may do with the page: show it, run its own scripts, fetch nothing."""
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    scripts += [one.script for one in sections if one.script]
    digests = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src {allowed}; base-uri 'none'; form-action 'none'"
    )
