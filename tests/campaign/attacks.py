"""The four attacks. Each takes a scene, a place to work in and draws; each says what went wrong."""

import builtins
import errno
import os
import random
import resource
import shlex
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.campaign.arguments import draw_words
from tests.campaign.running import Ended, run
from tests.campaign.scenes import JOBS, TRAIN, Job, copy_scene, read_results
from tests.data.test_fuzz import mutated

FAULTS = (errno.ENOSPC, errno.EIO, errno.EROFS)
MEMORY = 300 * 2**20  # bytes that a command may take beyond what its process has


@dataclass
class Tally:
    """What was done, and what went wrong."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[str, Ended, Path]] = field(default_factory=list)

    def check(self, ended: Ended, where: Path, wrong: str | None = None) -> bool:
        """Note what went wrong with a command, if anything did."""
        wrong = wrong or ended.failure
        if wrong:
            self.counts[wrong] += 1
            self.failures.append((wrong, ended, where))
        return wrong is None

    def describe(self) -> str:
        """All counts, and how to see each failure again."""
        lines = [f"{name}: {count:,}" for name, count in self.counts.items()]
        for wrong, ended, where in self.failures:
            last = (ended.err.strip().splitlines() or ["nothing"])[-1]
            again = shlex.join(["drpl", *ended.words])
            lines.append(f"FAILED ({wrong}): cd {shlex.quote(str(where))} && {again}\n    {last}")
        return "\n".join(lines)


def attack_by_kills(scene: Path, where: Path, draws: random.Random, tally: Tally) -> None:
    """Kill a command at random moments; started again it ends as if nothing had been."""
    name = draws.choice(list(JOBS))
    job, wanted, seconds = JOBS[name], *_run_whole(scene, name)
    copy_scene(scene, where)
    for _ in range(draws.randint(1, 4)):
        ended = run(job.words, where, kill_after=draws.uniform(0, 1.1 * seconds))
        tally.counts["kills"] += ended.code == -signal.SIGKILL
        if not tally.check(ended, where):
            return
    _finish(job, where, wanted, tally)


def attack_by_faults(scene: Path, where: Path, draws: random.Random, tally: Tally) -> None:
    """Let writing fail at random, or memory end; after that the command ends well."""
    name = draws.choice(list(JOBS))
    job, (wanted, _) = JOBS[name], _run_whole(scene, name)
    copy_scene(scene, where)
    tally.counts["faults"] += 1
    ended = run(job.words, where, prepare=draws.choice(_list_faults(draws)))
    if tally.check(ended, where):
        _finish(job, where, wanted, tally)


def attack_by_damage(scene: Path, where: Path, draws: random.Random, tally: Tally) -> None:
    """Damage a file and let a command read it: a sentence or a result, no traceback."""
    copy_scene(scene, where)
    files = sorted(path for path in where.rglob("*") if path.is_file() and path.name[0] != ".")
    kinds = sorted({_kind(path, where) for path in files})
    kind = draws.choice(kinds)
    path = draws.choice([path for path in files if _kind(path, where) == kind])
    content = path.read_bytes()
    for words in draws.sample(list(_list_readers(path, where)), 2):
        if words == TRAIN and path.name != "result.json":  # so that it reads what it left
            (where / "trained" / "result.json").unlink(missing_ok=True)
        path.write_bytes(_damage(content, draws))
        tally.counts["damaged files"] += 1
        tally.check(run(words, where), where)
        path.write_bytes(content)


def attack_by_arguments(scene: Path, where: Path, draws: random.Random, tally: Tally) -> None:
    """Give commands arguments of all kinds."""
    copy_scene(scene, where)
    for words in draw_words(draws.randrange(2**32), 5):
        tally.counts["command lines"] += 1
        tally.check(run(words, where, prepare=_refuse_long_work), where)


ATTACKS: dict[str, Callable[[Path, Path, random.Random, Tally], None]] = {
    "kills": attack_by_kills,
    "damage": attack_by_damage,
    "arguments": attack_by_arguments,
    "faults": attack_by_faults,
}

_whole: dict[tuple[Path, str], tuple[dict[str, bytes], float]] = {}


def _run_whole(scene: Path, name: str) -> tuple[dict[str, bytes], float]:
    """What a command leaves that nobody disturbs, and its seconds; done once."""
    if (scene, name) not in _whole:
        where = copy_scene(scene, scene.with_name(f"{scene.name}-{name}"))
        ended = run(JOBS[name].words, where)
        if ended.code:
            raise RuntimeError(f"{name}: {ended.err}")
        _whole[scene, name] = read_results(where, JOBS[name]), ended.seconds
    return _whole[scene, name]


def _finish(job: Job, where: Path, wanted: dict[str, bytes], tally: Tally) -> None:
    """The same command once more, undisturbed."""
    ended = run(job.words, where)
    if ended.code or ended.failure:
        tally.check(ended, where, ended.failure or "lost")
        return
    found = read_results(where, job)
    torn = [name for name in wanted if found.get(name) != wanted[name]]
    left = list(where.rglob("*.partial"))
    tally.check(
        ended, where, f"other bytes in {torn[0]}" if torn else "left parts" if left else None
    )


def _list_faults(draws: random.Random) -> list[Callable[[], None]]:
    code, number = draws.choice(FAULTS), draws.randint(1, 30)
    size = draws.choice([0, 100, 2_000, 20_000])

    def fail_to_sync() -> None:
        _fail_at(os, "fsync", number, code)

    def fail_to_open() -> None:
        _fail_at(builtins, "open", 10 * number, code, writing=True)
        _fail_at(__import__("io"), "open", number, code, writing=True)

    def fail_to_replace() -> None:
        _fail_at(os, "replace", number, code)

    def limit_files() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write then raises, as on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def limit_memory() -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + draws.randrange(MEMORY)
        resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))

    return [fail_to_sync, fail_to_open, fail_to_replace, limit_files, limit_memory]


def _fail_at(place: Any, name: str, number: int, code: int, *, writing: bool = False) -> None:
    """Let a function raise from its n-th call on."""
    real, calls = getattr(place, name), 0

    def faulty(*arguments: Any, **more: Any) -> Any:
        nonlocal calls
        mode = more.get("mode", arguments[1] if len(arguments) > 1 else "r")
        if not writing or (isinstance(mode, str) and set(mode) & set("wax+")):
            calls += 1
            if calls >= number:
                raise OSError(code, os.strerror(code), arguments[0] if arguments else None)
        return real(*arguments, **more)

    setattr(place, name, faulty)


def _refuse_long_work() -> None:
    """Arguments are what is tried here, not training: what begins to train ends well."""
    from drpl.training import loop

    def stop(*_: Any, **__: Any) -> Any:
        raise SystemExit(0)

    loop.train_epoch = stop
    resource.setrlimit(resource.RLIMIT_CPU, (60, 60))


def _kind(path: Path, where: Path) -> str:
    """Files of one kind are damaged as often as those of another."""
    first = path.relative_to(where).parts[0]
    return f"{first}/{path.name}" if first in ("trained", "cleaned") else f"{first}{path.suffix}"


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
    if first == "cleaned":
        yield ("review", first, "--summary")
        yield ("review", first, "--page", "review.html")
        yield ("apply", first, "-o", "better")
        yield ("clean", "photos", "-o", first, "--features", "none", "--budget", "1s", "-q")
    if first not in ("trained", "cleaned"):
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
