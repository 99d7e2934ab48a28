"""The shape of the package: who may import whom, and what must not be there."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

import drpl
from drpl.config.compose import PRESETS
from drpl.registry import DATASETS, DETECTORS, FORMATS, METHODS, NETWORKS, NOISES

SOURCE = Path(drpl.__file__).parent
DOCS = SOURCE.parents[1] / "docs"
PICTURE = DOCS / "images" / "architecture.svg"

# Everything may import the ground; a package may import those named here, and no others. Imports
# inside functions count. docs/architecture.md shows this table as a picture.
GROUND = ("errors", "files", "randomness", "registry", "distributed")
EDGES: dict[str, tuple[str, ...]] = {
    "config": (),
    "data": (),
    "networks": (),
    "detection": (),
    "noise": ("data",),
    "encoders": ("data", "networks"),
    "training": ("config", "data"),
    "runs": ("config", "data", "networks", "encoders", "detection", "noise", "training"),
    "methods": ("config", "data", "networks", "detection", "noise", "training", "runs"),
    "report": ("data", "noise", "runs"),
    "analysis": ("config", "data", "networks", "encoders", "detection", "runs", "report"),
    "experiments": ("config", "data", "noise", "runs", "report", "analysis"),
    "cleaning": (
        *("config", "data", "encoders", "detection", "noise", "training", "runs", "report"),
        "analysis",
    ),
    "cli": (
        *("config", "data", "encoders", "noise", "runs", "report"),
        *("analysis", "experiments", "cleaning"),
    ),
}
# Of these packages the report reads, and imports, no more than this: it must work without torch.
REPORT_READS = {
    "data": {"address", "decoding"},
    "noise": {"spec"},
    "runs": {"folder", "gallery"},
}
MOST_LOOSE = 7  # modules at the top
MOST_PARAMETERS = 8
LONGEST_METHOD = 150  # lines: an algorithm that can be read at once
FACES = {  # public functions of many keyword arguments, which build a record of them
    "runs/execute.py:train",
    "runs/experiment.py:build",
    "runs/estimator.py:find_label_issues",
    "experiments/grid.py:compare",
    "experiments/study.py:study",
    "analysis/cam.py:look",
    "analysis/probe.py:probe",
    "cleaning/clean.py:clean",
}


def modules() -> Iterator[tuple[str, Path, ast.Module]]:
    """Package, path below the source and syntax tree of every module in a package."""
    for path in sorted(SOURCE.rglob("*.py")):
        below = path.relative_to(SOURCE)
        if len(below.parts) > 1:
            yield below.parts[0], below, ast.parse(path.read_text())


def find_imports(tree: ast.Module) -> Iterator[list[str]]:
    """The parts of every name of this project that a module imports, without `drpl`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (a.name.split(".")[1:] for a in node.names if a.name.startswith("drpl."))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "drpl":
            base = str(node.module).split(".")[1:]
            yield from ([*base, alias.name] for alias in node.names)


def test_every_package_is_in_the_table() -> None:
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert packages == set(EDGES)
    loose = {path.stem for path in SOURCE.glob("*.py")}
    assert loose == {"__init__", "__main__", *GROUND}
    assert len(loose) <= MOST_LOOSE


def test_packages_import_only_what_the_table_allows() -> None:
    used = set()
    for package, path, tree in modules():
        for name in find_imports(tree):
            if name[0] in EDGES and name[0] != package:
                assert name[0] in EDGES[package], f"{path} imports {'.'.join(name)}"
                used.add((package, name[0]))
    unused = {(a, b) for a, others in EDGES.items() for b in others} - used
    assert not unused, "the table allows what nobody needs"


def test_the_ground_stands_on_itself() -> None:
    for name in GROUND:
        for other in find_imports(ast.parse((SOURCE / f"{name}.py").read_text())):
            assert other[0] in GROUND, f"{name} imports {'.'.join(other)}"


def test_the_table_has_no_circle() -> None:
    order = list(EDGES)
    for name, others in EDGES.items():
        assert all(order.index(other) < order.index(name) for other in others), name


def test_the_picture_shows_the_table(request: pytest.FixtureRequest) -> None:
    spec = spec_from_file_location("draw_architecture", DOCS / "draw_architecture.py")
    assert spec is not None
    assert spec.loader is not None
    drawing = module_from_spec(spec)
    spec.loader.exec_module(drawing)
    about = {}
    for name in EDGES:
        text = " ".join(str(import_module(f"drpl.{name}").__doc__).split())
        about[name] = text.partition(". ")[0].rstrip(".")
    picture = drawing.draw(EDGES, about)
    if request.config.getoption("--regenerate-golden"):
        PICTURE.write_text(picture)
    assert PICTURE.read_text() == picture, "write it anew with --regenerate-golden"
    page = (DOCS / "architecture.md").read_text()
    assert "images/architecture.svg" in page
    assert all(f"`{name}/`" in page for name in EDGES)


def test_packages_say_what_they_are() -> None:
    for name in EDGES:
        doc = str(import_module(f"drpl.{name}").__doc__)
        assert len(re.findall(r"[.:](?:\s|$)", doc)) >= 3, f"{name} needs three sentences"
        assert "mport" in doc, f"{name} does not say what it imports"


def test_the_report_needs_no_torch() -> None:
    for package, path, tree in modules():
        for name in find_imports(tree) if package == "report" else ():
            if name[0] in REPORT_READS:
                assert name[1] in REPORT_READS[name[0]], f"{path} imports {'.'.join(name)}"
    code = "import drpl.report.page, drpl.report.figures, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


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
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert node.value != "oracle_", f"{path}:{node.lineno} asks for a kind by its name"


def test_functions_have_few_parameters() -> None:
    for package, path, tree in modules():
        if package == "cli":
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                count = sum(one.arg not in ("self", "cls") for one in every)
                if f"{path.as_posix()}:{node.name}" not in FACES:
                    assert count <= MOST_PARAMETERS, f"{path}:{node.lineno} {node.name}"
                if node.args.kwarg:
                    assert node.args.kwarg.arg != "more", f"{path}:{node.lineno} {node.name}"


def test_methods_are_short() -> None:
    for path in sorted((SOURCE / "methods").glob("*.py")):
        lines = len(path.read_text().splitlines())
        assert lines <= LONGEST_METHOD, f"{path.name}: what is general belongs elsewhere"


def test_run_is_small() -> None:
    (run,) = (
        node
        for node in ast.walk(ast.parse((SOURCE / "runs" / "run.py").read_text()))
        if isinstance(node, ast.ClassDef) and node.name == "Run"
    )
    assert run.end_lineno is not None
    assert run.end_lineno - run.lineno < 150
    methods = {node.name for node in run.body if isinstance(node, ast.FunctionDef)}
    public = {name for name in methods if not name.startswith("_")} | {"labels", "classes"}
    assert public == {
        *("labels", "classes", "network", "rng", "fit", "observe", "keep", "judge"),
    }


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


def test_names_of_the_registry_can_be_loaded() -> None:
    for entries in (METHODS, DATASETS, NETWORKS, NOISES, DETECTORS, FORMATS):
        for entry in entries.values():
            assert entry.load()
            assert entry.about
    assert all(PRESETS.values())


def test_public_names_exist() -> None:
    for name in drpl.__all__:
        assert getattr(drpl, name) is not None
    assert not hasattr(drpl, "nothing")


@pytest.mark.parametrize(("old", "new"), [("Data", "DatasetSplits"), ("Reading", "ReadOptions")])
def test_old_names_warn(old: str, new: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"drpl.{old} is now drpl.{new}"):
        assert getattr(drpl, old) is getattr(drpl, new)
