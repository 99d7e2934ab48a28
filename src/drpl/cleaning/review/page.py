"""The review page: one HTML file, served by the review server or written with all it needs."""

import base64
import hashlib
import json
import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from drpl.cleaning.folder import Cleaned
from drpl.cleaning.review.decisions import ActiveDecisions, read
from drpl.cleaning.review.pictures import picture
from drpl.cleaning.review.table import Table
from drpl.files import write_atomic

MOST = 2000  # issues on a page without server
SIDE, NEAR_SIDE = 224, 96  # pixels of its images, and of those they are compared with


class Template(NamedTuple):
    """The page without its data, and what the browser may do with it."""

    text: str
    rules: str  # of a Content-Security-Policy: its own style and script and nothing from outside


@cache
def template() -> Template:
    """Read the page's file."""
    text = files("drpl.cleaning.review").joinpath("page.html").read_text("utf-8")
    hashes = {
        name: base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        for name, body in re.findall(r"<(style|script)>(.*?)</\1>", text, re.DOTALL)
    }
    rules = "; ".join(
        [
            "default-src 'none'",
            f"style-src 'sha256-{hashes['style']}'",
            f"script-src 'sha256-{hashes['script']}'",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    return Template(text, rules)


def filled(head: str, data: dict[str, Any]) -> str:
    """The page with its data, which no name of a class can break out of."""
    encoded = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    first, second, last = re.split("@HEAD@|@DATA@", template().text, maxsplit=2)
    return first + head + second + encoded + last


def described(cleaned: Cleaned, who: str) -> dict[str, Any]:
    """What the page must know before it asks for anything."""
    return {
        "name": cleaned.folder.resolve().name,
        "classes": list(cleaned.classes),
        "who": who,
    }


def write_page(cleaned: Cleaned, out: Path, who: str) -> int:
    """Write the page that needs no server; how many issues it shows."""
    write_atomic(out, standalone(cleaned, who))
    return min(MOST, len(cleaned.issues))


def script() -> str:
    """The page's own program."""
    (found,) = re.findall(r"<script>(.*?)</script>", template().text, re.DOTALL)
    return str(found)


def standalone(cleaned: Cleaned, who: str) -> str:
    """The page with the worst issues and their images inside."""
    table = Table(cleaned, ActiveDecisions(read(cleaned)))
    rows = [table.row(position) for position in range(min(MOST, len(table.ids)))]
    near = {
        number for row in rows for key in ("near_given", "near_suggested") for number in row[key]
    }
    sides = dict.fromkeys(near, NEAR_SIDE) | dict.fromkeys((row["id"] for row in rows), SIDE)
    data = described(cleaned, who) | {
        "key": cleaned.fingerprint,  # keeps the decisions on one page apart from another's
        "rows": rows,
        "images": {number: embedded(cleaned, number, side) for number, side in sides.items()},
    }
    rules = (
        f'<meta http-equiv="Content-Security-Policy" content="{template().rules}; img-src data:">'
    )
    return filled(rules, data)


def embedded(cleaned: Cleaned, number: int, side: int) -> str:
    """An image as an address that holds it."""
    image = picture(cleaned.image(number), side)
    return f"data:{image.kind};base64,{base64.b64encode(image.content).decode()}"
