"""CVAT: its XML for images (1.1) with a tag for each label of a whole image.

The given labels are tags with the source `auto`; decisions, and what people do in CVAT, are
`manual`. Only the latter come back.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from drpl.cleaning.exchange.labels import Export, Label, read_label
from drpl.errors import DataError
from drpl.files import write_atomic

ATTRIBUTES = ("action", "who", "time", "why", "given_label")
FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write(export: Export, path: Path) -> None:
    """Write annotations.xml as a task with these images would be exported."""
    root = Element("annotations")
    SubElement(root, "version").text = "1.1"
    task = SubElement(SubElement(root, "meta"), "task")
    for name, text in (("name", "drpl"), ("size", str(len(export.images))), ("mode", "annotation")):
        SubElement(task, name).text = text
    labels = SubElement(task, "labels")
    for name in export.labels:
        _add_label(labels, name)
    for image in export.images:
        width, height = image.measure()
        place = SubElement(root, "image", id=str(image.number), name=image.name)
        place.attrib |= {"width": str(width), "height": str(height)}
        for said in export.describe(image):
            source = "manual" if said["action"] else "auto"
            tag = SubElement(place, "tag", label=said["label"], source=source)
            for name in ATTRIBUTES if said["action"] else ():
                text = image.given if name == "given_label" else said[name]
                SubElement(tag, "attribute", name=name).text = text
    indent(root)
    text = tostring(root, "unicode")
    if found := FORBIDDEN.search(text):
        raise DataError(f"a name or label has the sign {found[0]!r}, which XML cannot hold")
    write_atomic(path, f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n')


def _add_label(labels: Element, name: str) -> None:
    label = SubElement(labels, "label")
    SubElement(label, "name").text = name
    SubElement(label, "type").text = "tag"
    attributes = SubElement(label, "attributes")
    for name in ATTRIBUTES:
        attribute = SubElement(attributes, "attribute")
        values = {"name": name, "mutable": "False", "input_type": "text"}
        for key, text in (values | {"default_value": "", "values": ""}).items():
            SubElement(attribute, key).text = text


def parse(content: Any) -> Iterator[Label] | None:
    """The tags that people gave."""
    if not isinstance(content, Element) or content.tag != "annotations":
        return None
    return _parse(content)


def _parse(root: Element) -> Iterator[Label]:
    for image in root.iter("image"):
        for tag in image.iter("tag"):
            if tag.get("source") != "auto":
                attributes = tag.iter("attribute")
                said = {str(one.get("name")): one.text for one in attributes if one.text}
                yield read_label(said, image.get("name"), tag.get("label"))
