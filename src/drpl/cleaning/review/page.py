"""The review page: one HTML file, served by the review server or written with all it needs."""

import base64
import hashlib
import json
import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import pandas as pd

from drpl.cleaning.folder import SIDES, CleanedFolder
from drpl.cleaning.review.decision_log import read_decisions
from drpl.cleaning.review.forecast import FEW, NEXT, Forecast, read_rate
from drpl.cleaning.review.thumbnails import encode_file
from drpl.errors import StorageError
from drpl.files import check_page, write_atomic

MOST = 2000  # issues on a page without server
SIDE, NEAR_SIDE = 224, 96  # pixels of its images, and of those they are compared with
KNOWN = ["path", "p_noisy", "confidence"]  # of every image
SHOWN = [
    *KNOWN,
    *("p_low", "p_high", "verdict", "outlier_score", "near_given", "near_suggested", "group"),
]
SCRIPTS = (  # in the order in which they build on each other
    *("source", "decisions", "images", "cards", "panel", "paging", "selection", "deciding"),
    *("history", "forecast", "dialogs", "keys"),
)


@cache
def read_part(name: str) -> str:
    """One of the page's files: page.html, page.css or one in script/."""
    return files("drpl.cleaning.review").joinpath(name).read_text("utf-8")


@cache
def read_script() -> str:
    """All of the page's script, as one: a page that is a file cannot load others."""
    return "\n".join(read_part(f"script/{name}.js") for name in SCRIPTS)


@cache
def build_policy() -> str:
    """A Content-Security-Policy: the page's own style and script, and nothing from outside."""
    style, script = (
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in (read_part("page.css"), read_script())
    )
    return (
        f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; "
        "base-uri 'none'; form-action 'none'"
    )


def fill_page(head: str, data: dict[str, Any]) -> str:
    """The page with its data, which no name of a class can break out of."""
    parts = {
        "@HEAD@": head,
        "@STYLE@": read_part("page.css"),
        "@SCRIPT@": read_script(),
        "@DATA@": json.dumps(data, ensure_ascii=False).replace("<", "\\u003c"),
    }
    return re.sub("|".join(parts), lambda found: parts[found[0]], read_part("page.html"))


def describe(cleaned: CleanedFolder, who: str) -> dict[str, Any]:
    """What the page must know before it asks for anything."""
    return {
        "name": cleaned.folder.resolve().name,
        "classes": list(cleaned.classes),
        "who": who,
        "samples": len(cleaned.samples),
        "listed": len(cleaned.issues),
        "look": cleaned.look.index.tolist(),
        "rate": read_rate(cleaned),
    }


def encode_issues(cleaned: CleanedFolder, most: int | None = None) -> str:
    """The issues as JSON, worst first, their classes by number: 100,000 are about 15 MB.

    The page filters, sorts and counts them itself, with and without a server. After them come
    samples to look at that are no issues, unless only the worst are wanted.
    """
    return _encode(cleaned, cleaned.reviewable if most is None else cleaned.issues[:most], SHOWN)


def encode_samples(cleaned: CleanedFolder) -> str:
    """All images in the same way, with less about each: 50,000 are about 3 MB."""
    return _encode(cleaned, cleaned.samples, KNOWN)


def _encode(cleaned: CleanedFolder, table: pd.DataFrame, columns: list[str]) -> str:
    numbers = pd.Index(cleaned.classes)
    labels = {
        name: numbers.get_indexer(pd.Index(table[f"{name}_label"]))
        for name in ("given", "suggested")
    }
    return str(table[columns].assign(**labels).to_json(orient="split"))


def encode_found(cleaned: CleanedFolder) -> dict[str, Any]:
    """Near-duplicates and outliers, for the page's tabs."""
    risk, pairs = cleaned.samples["p_noisy"], cleaned.duplicates
    for side in SIDES:
        trained = pairs[f"{side}_part"] == "train"
        own = pairs[f"{side}_id"].map(risk).where(trained)
        pairs = pairs.assign(**{f"{side}_p_noisy": own})
    outliers = cleaned.outliers
    outliers = outliers.assign(p_noisy=risk.reindex(outliers.index)).reset_index()
    tables = {"pairs": pairs, "outliers": outliers}
    return {name: json.loads(table.to_json(orient="records")) for name, table in tables.items()}


def encode_forecast(forecast: Forecast) -> dict[str, Any]:
    """What the page shows of a forecast."""
    fields = (
        "looked",
        "decided",
        "found",
        "rate",
        "sampled",
        "precision",
        "left",
        "ranked",
        "curve",
    )
    about = {name: getattr(forecast, name) for name in fields}
    count = min(NEXT, len(forecast.order))
    return about | {"upcoming": forecast.upcoming, "next": count, "few": FEW * count / NEXT}


def write_page(cleaned: CleanedFolder, out: Path, who: str) -> int:
    """Write the page that needs no server; how many issues it shows."""
    check_page(out)
    if out.resolve() == (cleaned.folder / "report.html").resolve():
        raise StorageError(f"{out} is the report; choose another name for the page")
    write_atomic(out, build_standalone(cleaned, who))
    return min(MOST, len(cleaned.issues))


def build_standalone(cleaned: CleanedFolder, who: str) -> str:
    """The page with the worst issues and their images inside."""
    issues = cleaned.issues[:MOST]
    near = " ".join([*issues["near_given"], *issues["near_suggested"]]).split()
    sides = dict.fromkeys(map(int, near), NEAR_SIDE) | dict.fromkeys(issues.index.tolist(), SIDE)
    images = {number: encode_file(cleaned.image(number), side) for number, side in sides.items()}
    data = describe(cleaned, who) | {
        "look": [],  # what it is for, a forecast, needs a server
        "found": {"pairs": [], "outliers": []},  # what they need, other images, would be large
        "key": cleaned.fingerprint,  # keeps the decisions on one page apart from another's
        "identity": cleaned.identity,  # goes with the decisions, so that no other folder takes them
        "issues": json.loads(encode_issues(cleaned, MOST)),
        "decisions": [
            line._asdict() for line in read_decisions(cleaned) if line.id in issues.index
        ],
        "images": {
            number: f"data:{kind};base64,{base64.b64encode(content).decode()}"
            for number, (content, kind) in images.items()
        },
    }
    policy = f"{build_policy()}; img-src data:"
    return fill_page(f'<meta http-equiv="Content-Security-Policy" content="{policy}">', data)
