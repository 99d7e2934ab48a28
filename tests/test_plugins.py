"""Methods and detectors of other packages, found by their entry points."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from drpl.registry import METHODS
from tests.support.tiny import brief_options

PLUGIN = Path(__file__).parents[1] / "examples" / "plugin"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example package installed, and a broken package beside it."""
    pytest.importorskip("setuptools")
    where = tmp_path_factory.mktemp("site")
    source = tmp_path_factory.mktemp("source") / "plugin"  # another each time this is set up
    shutil.copytree(PLUGIN, source)  # building leaves files behind
    words = ["install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    words += ["--disable-pip-version-check", "--target", str(where), str(source)]
    subprocess.run([sys.executable, "-m", "pip", *words], check=True)
    about = where / "broken-0.1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 0.1\n")
    (about / "entry_points.txt").write_text(
        "[drpl.methods]\nwrecked = broken_drpl.method\ndrpl = broken_drpl.method\n"
        "[drpl.detectors]\nwreck = broken_drpl.method:detector\n"
    )
    (where / "broken_drpl").mkdir()
    (where / "broken_drpl" / "__init__.py").write_text("raise OSError('the disk\\nis gone')\n")
    return where


def drpl(site: Path, where: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """Run the command in a process that sees the packages."""
    path = os.pathsep.join([str(site), *filter(None, sys.path)])
    return subprocess.run(
        [sys.executable, "-m", "drpl", *map(str, words)],
        cwd=where,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )


def test_a_package_brings_a_method_and_a_detector(site: Path, tmp_path: Path) -> None:
    listed = drpl(site, tmp_path, "list").stdout
    assert "smoothing        of the package drpl-example" in listed
    assert "averaged_doubt   of the package drpl-example" in listed
    assert "wrecked          of the package broken" in listed  # nothing is imported for a list
    brief = ("--set", "schedule.epochs=2", "--set", "smoothing=0.1", "--limit", "60", "-q")
    words = ("train", "digits", "--method", "smoothing", "--noise", "uniform:0.2", "--out", "run")
    trained = drpl(site, tmp_path, *words, *brief)
    assert trained.returncode == 0, trained.stderr
    assert trained.stdout.startswith("smoothing on digits")
    assert "smoothing = 0.1" in (tmp_path / "run" / "config.toml").read_text()
    scored = drpl(site, tmp_path, "score", "run")  # all detectors: the broken one is left out
    assert scored.returncode == 0, scored.stderr
    assert "averaged_doubt" in scored.stdout
    assert "broken_drpl.method:detector of the package broken cannot be" in scored.stdout
    scored = drpl(site, tmp_path, "score", "run", "--detector", "averaged_doubt")
    assert scored.returncode == 0, scored.stderr


@pytest.mark.slow
def test_a_broken_package_is_one_sentence_for_who_asks_for_it(site: Path, tmp_path: Path) -> None:
    said = drpl(site, tmp_path, "train", "digits", "--method", "wrecked", "--out", "run")
    assert said.returncode == 2
    assert said.stderr == (
        "error: broken_drpl.method of the package broken cannot be imported (OSError: the disk is "
        "gone); repair or uninstall that package\n"
    )
    brief = brief_options("cross_entropy", 1, {})
    words = ("train", "digits", "--method", "cross_entropy", "--limit", "60", "-q", *brief)
    assert drpl(site, tmp_path, *words, "--out", "other").returncode == 0


def test_nobody_takes_a_name_of_the_library(site: Path, tmp_path: Path) -> None:
    text = "from drpl.registry import METHODS; print(METHODS['drpl'].target, METHODS['wrecked'])"
    path = os.pathsep.join([str(site), *filter(None, sys.path)])
    found = subprocess.run(
        [sys.executable, "-c", text],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.startswith("drpl.methods.drpl MethodEntry(")


def test_a_name_of_the_library_looks_at_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start-up is quick however many packages are installed."""
    monkeypatch.setattr("drpl.registry.entry_points", lambda **_: pytest.fail("looked for"))
    monkeypatch.delitem(METHODS.__dict__, "_others", raising=False)
    assert METHODS["drpl"].package == ""
    assert "mixup" in METHODS
