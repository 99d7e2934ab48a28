"""A description of the corrected data set in the Croissant format, which search engines and loaders
of data sets read: its files with their checksums, its labels, and what was changed.

https://docs.mlcommons.org/croissant/docs/croissant-spec.html
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from drpl.cleaning.correct import AUDIT, Correction

FORMAT = "http://mlcommons.org/croissant/1.0"
TERMS = (  # of the format, all of which a description must declare; others are schema.org's
    *("citeAs", "column", "equivalentProperty", "extract", "field", "fileObject", "fileProperty"),
    *("fileSet", "format", "includes", "isLiveDataset", "jsonPath", "key", "md5", "parentField"),
    *("path", "recordSet", "references", "regex", "repeated", "replace", "samplingRate"),
    *("separator", "source", "subField", "transform"),
)
MEDIA_TYPES = {".csv": "text/csv", ".npz": "application/zip"}
NUMBERS = ("id",)  # columns that are none of texts


def describe_dataset(
    correction: Correction, out: Path, files: Sequence[str], columns: Sequence[str]
) -> dict[str, Any]:
    """`croissant.json`: the files in `out`, and what the columns of the first one hold, if any.

    Without columns and with labels as folders, the images are a set of files.
    """
    tables = [_describe_table("changes", "audit.csv", AUDIT)]
    if columns:
        tables.append(_describe_table("images", files[0], columns))
    distribution = [_describe_file(out / name) for name in files]
    if not any(name in files for name in ("labels.csv", "data.npz")):
        distribution.append(
            {
                "@type": "cr:FileSet",
                "@id": "image-files",
                "name": "image-files",
                "description": "a folder for each class with its images",
                "encodingFormat": "image/*",
                "includes": [f"**/{name}/*" for name in sorted(set(correction.labels))],
            }
        )
    return {
        "@context": {
            "@language": "en",
            "@vocab": "https://schema.org/",
            "sc": "https://schema.org/",
            "cr": "http://mlcommons.org/croissant/",
            "rai": "http://mlcommons.org/croissant/RAI/",
            "dct": "http://purl.org/dc/terms/",
            "conformsTo": "dct:conformsTo",
            "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
            **{term: {"@id": f"cr:{term}", "@type": "@json"} for term in ("data", "examples")},
            **{term: f"cr:{term}" for term in TERMS},
        },
        "@type": "sc:Dataset",
        "conformsTo": FORMAT,
        "name": _name(correction.cleaned.source),
        "description": f"{Path(correction.cleaned.source).name} with corrected labels: "
        f"{correction.describe()}.",
        "distribution": distribution,
        "recordSet": tables,
    }


def _name(source: str) -> str:
    """What the data set is called: letters, digits and a few signs, as the format wants."""
    stem = Path(source).stem or "data"
    signs = (sign if sign.isascii() and (sign.isalnum() or sign in "-_.") else "-" for sign in stem)
    return "".join(signs) + "-corrected"


def _describe_file(path: Path) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": path.name,
        "name": path.name,
        "contentUrl": path.name,
        "encodingFormat": MEDIA_TYPES[path.suffix],
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
    }


def _describe_table(name: str, file: str, columns: Sequence[str]) -> dict[str, Any]:
    """A table with a record for each row."""
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"{name}/{column}",
                "name": f"{name}/{column}",
                "dataType": "sc:Integer" if column in NUMBERS else "sc:Text",
                "source": {"fileObject": {"@id": file}, "extract": {"column": column}},
            }
            for column in columns
        ],
    }
