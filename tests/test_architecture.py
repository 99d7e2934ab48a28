"""The shape of the package: who may import whom, and what must not be there."""

import ast
from pathlib import Path

import drpl
from drpl.config import PRESETS
from drpl.detection import DETECTORS
from drpl.methods import METHODS
from drpl.networks import NETWORKS
from drpl.noise import NOISES

SOURCE = Path(drpl.__file__).parent
DOCS = SOURCE.parents[1] / "docs"
LAYERS = [  # a module may import its own layer and those before it
    {"errors", "catalogue", "files", "settings", "randomness", "distributed", "engines"},
    {"data", "noise", "networks"},
    {"training"},
    {"detection"},
    {"config", "display", "history", "result", "model", "run", "paper", "loggers"},
    {"methods"},
    {"choosing", "record", "pipeline", "rehearsal", "reporting", "confusion", "corrupt", "doctor"}
    | {"scoring", "grid", "reproduce", "estimator", "export", "cleaning"}
    | {"reread", "activation", "probing", "studying"},
    {"cli", "__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def modules() -> list[tuple[str, Path, ast.Module]]:
    return [
        (path.relative_to(SOURCE).parts[0].removesuffix(".py"), path, ast.parse(path.read_text()))
        for path in SOURCE.rglob("*.py")
        if path != SOURCE / "__init__.py" and "presets" not in path.parts
    ]


def imported(tree: ast.Module) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("drpl"):
            inside = node.module.split(".")[1:2] or [alias.name for alias in node.names]
            names |= set(inside) - {"__version__"}
    return names


def test_imports_go_one_way() -> None:
    for name, path, tree in modules():
        for other in imported(tree):
            assert LEVEL[other] <= LEVEL[name], f"{path} imports {other}, which stands above it"


def test_the_report_needs_no_training_code() -> None:
    for name, path, tree in modules():
        if name == "reporting":
            assert not imported(tree) & {"training", "methods", "run", "pipeline", "model"}, path
            assert "torch" not in path.read_text()


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
        assert (SOURCE / "presets" / f"{name}.toml").is_file()
        assert f"## `{name}`" in page
        module = entry.load()
        assert module.__doc__
        assert callable(module.train)


def test_every_number_of_a_preset_has_its_source() -> None:
    for path in (SOURCE / "presets").glob("*.toml"):
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
