"""The four attacks. Each takes a scene, a place to work in and draws; each says what went wrong."""

import builtins
import errno
import math
import mmap
import os
import random
import resource
import shlex
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from tests.campaign.arguments import draw_words
from tests.campaign.running import Ended, run
from tests.campaign.scenes import (
    CLEAN,
    DATA,
    JOBS,
    LISTED,
    TRAIN,
    Job,
    change_data,
    copy_scene,
    read_results,
    restore_data,
)
from tests.data.test_fuzz import mutated

FAULTS = (errno.ENOSPC, errno.EIO, errno.EROFS)
MEMORY = 1000 * 2**20  # bytes that a command may take beyond what its process has
LATEST = 40  # call at which writing fails
BATCHES, LINES = 50, 100  # of command lines that are drawn at once
DONE = ("kills", "damaged files", "command lines", "faults")
WRONG = ("lost", "torn", "tracebacks", "hangs", "silent mixtures")


@dataclass
class Tally:
    """What was done, and what went wrong."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[str, Ended, Path, str]] = field(default_factory=list)

    def check(self, ended: Ended, where: Path, wrong: str | None = None, why: str = "") -> bool:
        """Note what went wrong with a command, if anything did."""
        wrong = ended.failure or wrong
        if wrong:
            self.counts[wrong] += 1
            self.failures.append((wrong, ended, where, why))
        return wrong is None

    def add(self, other: "Tally") -> None:
        """Take in what another worker did."""
        self.counts.update(other.counts)
        self.failures += other.failures

    def describe(self) -> str:
        """All counts, and how to see each failure again."""
        names = dict.fromkeys([*DONE, *WRONG, *self.counts])
        lines = [", ".join(f"{name}: {self.counts[name]:,}" for name in names)]
        for wrong, ended, where, why in self.failures:
            last = why or (ended.err.strip().splitlines() or ["nothing"])[-1]
            again = shlex.join(["drpl", *ended.words])
            lines.append(f"FAILED ({wrong}): cd {shlex.quote(str(where))} && {again}\n    {last}")
        return "\n".join(lines)


def attack_by_kills(scene: Path, where: Path, draws: random.Random, tally: Tally) -> None:
    """Kill a command at random moments; started again it ends as if nothing had been.

    Some are started with other data first, which must be refused if there is something of the old.
    """
    name = draws.choice(list(JOBS))
    job, wanted, seconds = JOBS[name], *_run_whole(scene, name)
    copy_scene(scene, where)
    for _ in range(draws.randint(1, 4)):
        ended = run(job.words, where, kill_after=draws.uniform(0, 1.1 * seconds))
        tally.counts["kills"] += ended.code == -signal.SIGKILL
        if not tally.check(ended, where):
            return
    if job.resumed and draws.random() < 0.4:
        change_data(where)
        ended = run(job.words, where)
        if ended.code == 0:  # then nothing may be of the old data
            other, _ = _run_whole(scene, name, changed=True)
            _compare(job, where, other, ended, tally, "silent mixtures")
            return
        if not tally.check(ended, where):
            return
        restore_data(scene, where)
    _finish(job, where, wanted, tally)


def attack_by_faults(scene: Path, where: Path, draws: random.Random, tally: Tally) -> None:
    """Let writing fail at random, or memory end; after that the command ends well."""
    name = draws.choice(list(JOBS))
    job, (wanted, _) = JOBS[name], _run_whole(scene, name)
    copy_scene(scene, where)
    struck = mmap.mmap(-1, 1)  # shared with the command: whether its fault came
    ended = run(job.words, where, prepare=draws.choice(_list_faults(draws, struck)))
    tally.counts["faults"] += struck[0] or ended.code != 0
    if tally.check(ended, where):
        _finish(job, where, wanted, tally)


def attack_by_damage(scene: Path, where: Path, draws: random.Random, tally: Tally) -> None:
    """Damage a file and let a command read it: a sentence or a result, no traceback."""
    copy_scene(scene, where)
    path = draws.choice(draws.choice(list(_list_damaged(where).values())))
    words = draws.choice(list(_list_readers(path, where)))
    content = path.read_bytes()
    while (damaged := _damage(content, draws)) == content:
        pass

    def prepare() -> None:
        """What a command finds; one that trains or cleans goes on with what it left."""
        copy_scene(scene, where)
        for job, last in ((TRAIN, "trained/result.json"), (CLEAN, "cleaned/clean.json")):
            if words == job and path != where / last:
                (where / last).unlink()
        path.write_bytes(damaged)

    prepare()
    tally.counts["damaged files"] += 1
    ended, wrong, why = run(words, where), None, ""
    if ended.code == 0 and words in (TRAIN, CLEAN):
        out = "trained" if words == TRAIN else "cleaned"
        names = [f"{out}/{name}" for name in ("samples.csv", "model.safetensors")]
        other = [name for name in names if _read(where / name) != _read(scene / name)]
        if other and where / other[0] != path:
            wrong, why = "silent mixtures", f"{path.name} was damaged, {other[0]} differs"
    if not tally.check(ended, where, wrong, why):
        prepare()


def attack_by_arguments(scene: Path, where: Path, draws: random.Random, tally: Tally) -> None:
    """Give a command arguments of all kinds."""
    words = draws.choice(draw_words(draws.randrange(BATCHES), LINES))
    copy_scene(scene, where)
    tally.counts["command lines"] += 1
    if not tally.check(run(words, where, prepare=_refuse_long_work), where):
        copy_scene(scene, where)


ATTACKS: dict[str, Callable[[Path, Path, random.Random, Tally], None]] = {
    "kills": attack_by_kills,
    "damage": attack_by_damage,
    "arguments": attack_by_arguments,
    "faults": attack_by_faults,
}

_whole: dict[tuple[Path, str, bool], tuple[dict[str, bytes], float]] = {}


def _run_whole(scene: Path, name: str, *, changed: bool = False) -> tuple[dict[str, bytes], float]:
    """What a command leaves that nobody disturbs, and its seconds; done once."""
    if (scene, name, changed) not in _whole:
        where = copy_scene(scene, Path(mkdtemp(prefix=f"{name}-", dir=scene.parent)))
        if changed:
            change_data(where)
        ended = run(JOBS[name].words, where)
        if ended.code:
            raise RuntimeError(f"{name}: {ended.err}")
        _whole[scene, name, changed] = read_results(where, JOBS[name]), ended.seconds
        shutil.rmtree(where)
    return _whole[scene, name, changed]


def _finish(job: Job, where: Path, wanted: dict[str, bytes], tally: Tally) -> None:
    """The same command once more, undisturbed."""
    ended = run(job.words, where)
    if ended.code:
        tally.check(ended, where, "lost")
    else:
        _compare(job, where, wanted, ended, tally, "torn")


def _compare(
    job: Job, where: Path, wanted: dict[str, bytes], ended: Ended, tally: Tally, wrong: str
) -> None:
    """Whether a command left what it should, and nothing else."""
    found = read_results(where, job)
    other = [name for name in wanted if found.get(name) != wanted[name]]
    parts = [path.name for path in where.rglob("*.partial")]
    why = f"other bytes in {other[0]}" if other else f"left {parts[0]}" if parts else ""
    tally.check(ended, where, wrong if why else None, why)


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _list_faults(draws: random.Random, struck: mmap.mmap) -> list[Callable[[], None]]:
    code, number = draws.choice(FAULTS), round(math.exp(draws.uniform(0, math.log(LATEST))))
    size = draws.choice([0, 100, 2_000, 20_000])

    def fail_to_sync() -> None:
        _fail_at(os, "fsync", number, code, struck)

    def fail_to_open() -> None:
        _fail_at(builtins, "open", number, code, struck, writing=True)
        _fail_at(__import__("io"), "open", number, code, struck, writing=True)

    def fail_to_replace() -> None:
        _fail_at(os, "replace", number, code, struck)

    def limit_files() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write then raises, as on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def limit_memory() -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + draws.randrange(MEMORY)
        resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))

    return [fail_to_sync, fail_to_open, fail_to_replace, limit_files, limit_memory]


def _fail_at(
    place: Any, name: str, number: int, code: int, struck: mmap.mmap, *, writing: bool = False
) -> None:
    """Let a function raise from its n-th call on."""
    real, calls = getattr(place, name), 0

    def faulty(*arguments: Any, **more: Any) -> Any:
        nonlocal calls
        mode = more.get("mode", arguments[1] if len(arguments) > 1 else "r")
        if not writing or (isinstance(mode, str) and set(mode) & set("wax+")):
            calls += 1
            if calls >= number:
                struck[0] = 1
                raise OSError(code, os.strerror(code), arguments[0] if arguments else None)
        return real(*arguments, **more)

    setattr(place, name, faulty)


def _refuse_long_work() -> None:
    """Arguments are what is tried here, not training: what begins to train ends well."""
    from drpl.training import loop

    def stop(*_: Any, **__: Any) -> Any:
        raise SystemExit(0)

    loop.train_epoch = stop


def _list_damaged(where: Path) -> dict[str, list[Path]]:
    """Files by kind: those of one kind are damaged as often as those of another."""
    kinds: dict[str, list[Path]] = {}
    for path in sorted(where.rglob("*")):
        if path.is_file() and path.name[0] != "." and "trees/photos" not in str(path):
            first, made = path.relative_to(where).parts[0], {*path.parts} & {"trained", "cleaned"}
            kind = f"{first}/{path.name}" if made else f"{first}{path.suffix}"
            kinds.setdefault(kind, []).append(path)
    return kinds


def _list_readers(path: Path, where: Path) -> Iterator[tuple[str, ...]]:
    """Commands that read a file."""
    first = path.relative_to(where).parts[0]
    if first in ("trained", "cleaned"):
        yield ("report", first, "-o", "page.html")
        yield ("score", first)
        yield ("predict", first, "photos", "-q")
        yield ("figures", first, "-o", "pictures")
        yield ("export", first, "-o", "model.pt2", "--to", "torch")
        yield ("look", first, "--count", "1", "-o", "seen")
    if first == "trained":
        yield TRAIN
        yield ("detect", *TRAIN[1:])
    if first in ("cleaned", "trees"):
        folder = LISTED if first == "trees" else first
        yield ("review", folder, "--summary")
        yield ("review", folder, "--page", "review.html")
        yield ("apply", folder, "-o", "better")
    if first == "cleaned":
        yield CLEAN
    if first in (*DATA, "list.csv"):
        yield ("doctor", first, "--no-times")
        yield ("noise", first, "--noise", "uniform:0.2", "-o", "noisy")
        yield ("predict", "trained", "photos", "-q")


def _damage(content: bytes, draws: random.Random) -> bytes:
    """Bytes changed anywhere, or values in a text."""
    if draws.random() < 0.5:
        return mutated(content, draws)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return mutated(content, draws)
    words = ["null", "-1", "1e999", "NaN", '"x"', "[]", "{}", "true", "99999999999999999999", ""]
    parts = [
        part for part in text.replace(",", "\n").replace(":", "\n").split("\n") if part.strip()
    ]
    for _ in range(draws.randint(1, 3)):
        if parts:
            text = text.replace(draws.choice(parts).strip(), draws.choice(words), 1)
    return text.encode()
