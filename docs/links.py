"""On GitHub a page links to files outside docs/; the site has none of them and names them."""

import logging
import re
from pathlib import Path
from typing import Any

LINK = re.compile(r"\[([^]]*)]\(\.\./([^)#]+)\)")
log = logging.getLogger("mkdocs.plugins.links")


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Called by MkDocs for each page: `[text](../file)` becomes text and the file's name."""
    root = Path(config.config_file_path).parent

    def name(link: re.Match[str]) -> str:
        text, path = link.groups()
        if not (root / path).exists():
            log.warning("%s links to %s, which is not there", page.file.src_path, path)
        return f"{text} (`{path}`)"

    return LINK.sub(name, markdown)
