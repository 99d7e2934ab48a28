"""Which image of a cleaned folder is meant by the name that another tool has for it."""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from drpl.cleaning.exchange.labels import name_images
from drpl.cleaning.folder import CleanedFolder

LINK = re.compile(r"(\d{7,})-(.+)")  # as `links.name_link` names them
UPLOADED = re.compile(r"[0-9a-f]{8}-")  # what Label Studio puts before the names of uploaded files


class ImageNames:
    """The ids of images by their paths, by addresses that end so, or by a unique part of them."""

    def __init__(self, cleaned: CleanedFolder) -> None:
        self.names = name_images(cleaned)
        self.numbers = {name: number for number, name in self.names.items()}
        self.by_last: dict[str, list[int]] = defaultdict(list)  # by the file's name, and its stem
        for number, name in self.names.items():
            for last in _list_last(name):
                self.by_last[last].append(number)

    def find(self, name: str) -> int | None:
        """The id of the image that is meant; None if there is none, or several could be."""
        candidates = list(_list_readings(name))
        for candidate in candidates:
            steps = candidate.split("/")
            for start in range(len(steps)):
                if (number := self.numbers.get("/".join(steps[start:]))) is not None:
                    return number
        for candidate in candidates:
            last = candidate.rpartition("/")[2]
            found = [i for i in self.by_last.get(last, ()) if _ends_with(self.names[i], candidate)]
            if len(found) == 1:
                return found[0]
            link = LINK.fullmatch(last)
            if link and link[2] in _list_last(self.names.get(int(link[1]), "")):
                return int(link[1])
        return None


def _list_readings(name: str) -> Iterator[str]:
    """A name as it stands, then as an address with its codes written out."""
    yield name
    plain = name.replace("\\", "/")
    if "?d=" in plain:  # files that Label Studio serves
        plain = plain.partition("?d=")[2].partition("&")[0]
    elif "://" in plain:
        plain = urlsplit(plain).path
    plain = unquote(plain).lstrip("/")
    yield plain
    folder, _, last = plain.rpartition("/")
    if "upload/" in f"{folder}/" and UPLOADED.match(last):
        yield UPLOADED.sub("", last, count=1)


def _list_last(name: str) -> set[str]:
    """The name of a file, and the same without its ending."""
    path = PurePosixPath(name)
    return {path.name, path.stem}


def _ends_with(name: str, end: str) -> bool:
    """Whether a path ends with these steps; its ending may be missing."""
    return any(
        f"/{text}".endswith(f"/{end}") for text in (name, str(PurePosixPath(name).with_suffix("")))
    )
