"""The shape of the package: who may import whom, and what must not be there."""

import ast
from pathlib import Path

import drpl
from drpl.config.compose import PRESETS
from drpl.registry import DETECTORS, METHODS, NETWORKS, NOISES

SOURCE = Path(drpl.__file__).parent
DOCS = SOURCE.parents[1] / "docs"


def modules() -> list[tuple[str, Path, ast.Module]]:
    return [
        (path.relative_to(SOURCE).parts[0].removesuffix(".py"), path, ast.parse(path.read_text()))
        for path in SOURCE.rglob("*.py")
        if path != SOURCE / "__init__.py" and "presets" not in path.parts
    ]


def test_no_switch_on_the_method_and_no_trainer() -> None:
    for _, path, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                assert "Trainer" not in node.name, path
            if isinstance(node, ast.Compare):
                compared = {c.value for c in node.comparators if isinstance(c, ast.Constant)}
                assert not compared & set(METHODS), (
                    f"{path}:{node.lineno} asks for a method by name"
                )


def test_every_method_has_a_preset_and_a_page() -> None:
    page = (DOCS / "methods.md").read_text()
    for name, entry in METHODS.items():
        assert (SOURCE / "config" / "presets" / f"{name}.toml").is_file()
        assert f"## `{name}`" in page
        module = entry.load()
        assert module.__doc__
        assert callable(module.train)


def test_every_number_of_a_preset_has_its_source() -> None:
    presets = list((SOURCE / "config" / "presets").glob("*.toml"))
    assert len(presets) > len(METHODS)  # one is shared
    for path in presets:
        for line in path.read_text().splitlines():
            if "=" in line and not line.startswith("#"):
                assert "# " in line, f"{path.name}: {line} says not where it comes from"


def test_names_of_the_catalogues_can_be_loaded() -> None:
    for entries in (METHODS, NETWORKS, NOISES, DETECTORS):
        for entry in entries.values():
            assert entry.load()
            assert entry.about
    assert all(PRESETS.values())


def test_public_names_exist() -> None:
    for name in drpl.__all__:
        assert getattr(drpl, name) is not None
    assert not hasattr(drpl, "nothing")
