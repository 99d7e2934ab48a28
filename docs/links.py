"""On GitHub a page links to files outside docs/; the site has none of them and names them."""

import logging
import re
from pathlib import Path
from typing import Any

LINK = re.compile(r"\[([^]]*)]\(\.\./([^)#]+)(?:#([^)]*))?\)")
HEADING = re.compile(r"^#+ +(.*)", re.MULTILINE)
log = logging.getLogger("mkdocs.plugins.links")


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Called by MkDocs for each page: `[text](../file#part)` becomes text and the file's name."""
    root = Path(config.config_file_path).parent

    def name(link: re.Match[str]) -> str:
        text, path, part = link.groups()
        if not (root / path).exists():
            log.warning("%s links to %s, which is not there", page.file.src_path, path)
        elif part and path.endswith(".md") and part not in list_anchors(root / path):
            log.warning("%s links to %s in %s, no heading of it", page.file.src_path, part, path)
        return f"{text} (`{path}`)"

    return LINK.sub(name, markdown)


def list_anchors(page: Path) -> list[str]:
    """What GitHub calls the headings of a page: small letters, digits and hyphens."""
    headings = HEADING.findall(page.read_text(encoding="utf-8"))
    return [re.sub(r"[^\w\- ]", "", one.strip().lower()).replace(" ", "-") for one in headings]
