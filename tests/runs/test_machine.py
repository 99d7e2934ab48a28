"""Threads and priority on a machine that others use too."""

import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from drpl.runs import machine
from tests.conftest import Command

VARIABLES = (*machine.SPIN, "OMP_WAIT_POLICY", "OMP_NUM_THREADS")
SHOW = "import os; print(*(os.environ.get(name, '-') for name in {names!r}))"
# What is there at the moment at which torch is asked for, and not only afterwards.
WATCH = """
import sys
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            {show}
            raise SystemExit
sys.meta_path.insert(0, Watch())
"""


def run(code: str, **variables: str) -> str:
    """What Python prints, with these variables of OpenMP and no others."""
    kept = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    path = os.pathsep.join([str(Path(machine.__file__).parents[2]), *sys.path])
    words = [sys.executable, "-c", code]
    environment = {**kept, "PYTHONPATH": path, **variables}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def show(*names: str) -> str:
    return SHOW.format(names=names)


def write_groups(root: Path, listed: str, **files: str) -> None:
    """A system whose process is in these control groups; `__` stands for a folder."""
    files["proc__self__cgroup"] = listed
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("cpu_", "cpu.")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize("imported", ["drpl.distributed", "drpl.__main__; drpl.train"])
def test_the_variables_are_there_before_torch(imported: str) -> None:
    watch = WATCH.format(show=show(*machine.SPIN))
    assert run(f"{watch}\nimport {imported}").split() == list(machine.SPIN.values())


def test_a_choice_of_the_user_wins() -> None:
    code = f"import drpl; {show(*machine.SPIN, 'OMP_WAIT_POLICY')}"
    ours = machine.SPIN["KMP_BLOCKTIME"]
    assert run(code, GOMP_SPINCOUNT="7") == f"7 {ours} -"
    assert run(code, OMP_WAIT_POLICY="active") == "- - active"


def test_nothing_is_set_after_torch() -> None:
    code = f"import sys; sys.modules['torch'] = sys; import drpl; {show(*VARIABLES)}"
    assert run(code) == "- - - -"


def test_make_has_the_same_values() -> None:
    text = (Path(__file__).parents[2] / "Makefile").read_text()
    assert dict(re.findall(r"export (\w+) \?= (\w+)", text)) == machine.SPIN


@pytest.mark.parametrize(
    ("limit", "cores"),
    [("max 100000", 8), ("200000 100000", 2), ("150000 100000", 2), ("1000 100000", 1), ("", 8)],
)
def test_cores_follow_the_quota(
    limit: str, cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    write_groups(tmp_path, "0::/\n", sys__fs__cgroup__cpu_max=limit)
    assert machine.count_cores(tmp_path) == cores


def test_cores_follow_a_quota_of_version_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    place = "sys__fs__cgroup__cpu__cpu_cfs"  # a container lists a path that it cannot see
    period = {f"{place}_period_us": "50000\n"}
    listed = "5:memory:/docker/1\n4:cpu,cpuacct:/docker/1\n0::/\n"
    write_groups(tmp_path, listed, **{f"{place}_quota_us": "-1\n"}, **period)
    assert machine.count_cores(tmp_path) == 8
    write_groups(tmp_path, listed, **{f"{place}_quota_us": "150000\n"}, **period)
    assert machine.count_cores(tmp_path) == 3


def test_the_smallest_quota_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    limits = {
        "sys__fs__cgroup__a__b__cpu_max": "max 100000",
        "sys__fs__cgroup__a__cpu_max": "300000 100000",
        "sys__fs__cgroup__other__cpu_max": "100000 100000",
    }
    write_groups(tmp_path, "0::/a/b\n", **limits)
    assert machine.count_cores(tmp_path) == 3


def test_cores_follow_the_affinity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_groups(tmp_path, "0::/\n", sys__fs__cgroup__cpu_max="400000 100000")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 5, 7}, raising=False)
    assert machine.count_cores(tmp_path) == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert machine.count_cores(tmp_path / "no such system") == 2


def test_threads_are_as_many_as_the_quota_allows() -> None:
    limited = (
        "import os; os.sched_getaffinity = lambda _: set(range(8))\n"
        "import pathlib; read = pathlib.Path.read_text\n"
        "files = {'/proc/self/cgroup': '0::/', '/sys/fs/cgroup/cpu.max': '100000 100000'}\n"
        "pathlib.Path.read_text = lambda p, *a, **k: files.get(str(p)) or read(p, *a, **k)\n"
        f"import drpl; {show('OMP_NUM_THREADS')}\n"
    )
    assert run(f"{limited}import torch; print(torch.get_num_threads())").split() == ["1", "1"]
    assert run(limited, OMP_NUM_THREADS="2") == "2"


def test_nice_lowers_the_priority() -> None:
    code = (
        "import os, sys; from drpl.__main__ import main; from drpl.cli import app\n"
        "@app.command()\n"
        "def show() -> None: print(os.nice(0))\n"
        "sys.argv = ['drpl', {words}'show']; main()"
    )
    usual = int(run(code.format(words="")))
    assert usual == os.nice(0)
    assert int(run(code.format(words="'--nice', "))) == min(19, usual + machine.NICER)


def test_nice_where_there_are_no_priorities(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "nice")
    answer = command("--nice", "list", "methods")
    assert answer.code == 0
    assert "no effect" in answer.err
    assert "drpl" in answer.out


def test_nice_is_explained(command: Command) -> None:
    assert "--nice" in command("--help").out
    assert command("--nice").code == 2


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere such limits are not enforced")
@pytest.mark.parametrize("words", [(), ("--dry-run",)])
def test_too_little_memory_is_said_before_torch_crashes(
    mistake: Callable[..., str], monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    def limit(_: int) -> tuple[int, int]:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        return pages * resource.getpagesize() + 100 * 2**20, resource.RLIM_INFINITY

    monkeypatch.setattr(resource, "getrlimit", limit)
    assert "MB of memory leaves 100, and networks need 512" in mistake(
        "train", "digits", "--limit", "60", "--out", "run", *words
    )
    assert not Path("run").exists()
