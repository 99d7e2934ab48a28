"""A folder with links to images, for formats that have the images beside the labels."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from drpl.cleaning.exchange.labels import Export, Image
from drpl.cleaning.links import claim, list_earlier, name_link, place_links
from drpl.errors import DataError, StorageError
from drpl.files import lock_folder

LABELS = {"labels.json", "metadata.csv"}


@contextmanager
def write_images(
    export: Export, out: Path, kind: str, below: str
) -> Iterator[list[tuple[Image, Path]]]:
    """Links in `out/below` to the images that have a file; gives each with its place in `out`.

    Nobody else writes into the folder meanwhile. The names are without folders: those of classes
    may mean something else to other tools, as `test` does.
    """
    if out.exists() and not out.is_dir():
        raise StorageError(f"{out} is a file; {kind} is written to a folder")
    places = {
        image.number: (image, Path(below, name_link(image.number, image.file)))
        for image in export.images
        if image.file
    }
    if export.images and not places:
        raise DataError(f"the images of {export.cleaned.source} are no files; take another format")
    with lock_folder(out):
        there = [file for file in list_earlier(out) if file.name not in LABELS]
        claim(out, kind, export.cleaned)
        cleaned = export.cleaned
        own = {name_link(i, cleaned.image(i) or Path()) for i in cleaned.samples.index}
        wanted = {place: image.file.resolve() for image, place in places.values() if image.file}
        place_links(out, wanted, there, own)
        yield list(places.values())
