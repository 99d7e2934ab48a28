"""Speed as ratios, each from one interleaved run, best of several: `make bench`.

loop_ratio       the whole loop over bare forward + backward + step on a fixed batch
cached_ratio     the same with the images in a cache on disk
ssl_ratio        the same for a semi-supervised epoch: one more forward without gradient
decode_ratio     images a second and core of JPEGs of 500 x 375 over a plain loop with Pillow
mixture_speedup  fit + score of a million losses over the plain formulation with scipy.stats
growth           nanoseconds per sample of detection at 1k to 1M samples
encoder_ratio    images a second and core of `drpl encode` on JPEGs over eager torch on tensors
busy_ratio       images a second of training while two loops keep each core busy, over the same
                 with OpenMP as it is without `import drpl`
quiet_ratio      the same without those loops

    python benchmarks/bench.py [NAME ...]

measures only what is named (`encoder`, `growth` ...) and keeps the other figures of the file.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from scipy.stats import beta
from torch import Tensor, nn, optim

from drpl.data.decoding import decode
from drpl.data.images import Images, TensorImages
from drpl.data.pixel_store import open_packed, write_packed
from drpl.data.sources import ReadOptions
from drpl.data.transforms import CropFlip, Normalise
from drpl.detection.evidence import Evidence
from drpl.detection.mixture import BetaMixture, Scale
from drpl.detection.split import detect
from drpl.encoders.encode import encode
from drpl.encoders.encoder import load_encoder
from drpl.encoders.engine import BATCH as ENCODED
from drpl.files import read_json, write_json
from drpl.methods.cross_entropy import Classify
from drpl.methods.pseudo_label import PseudoLabel, SemiSupervised
from drpl.networks.build import build_network
from drpl.runs.execute import list_versions
from drpl.runs.machine import SPIN, count_cores
from drpl.training.feed import Feed
from drpl.training.loop import fit
from drpl.training.losses import cross_entropy, one_hot
from drpl.training.schedule import Schedule
from drpl.training.stage import Stage

RESULT = Path(__file__).parent / "results" / "bench.json"
SEED, BATCH, STEPS, ROUNDS = 1, 128, 8, 6
CPU = torch.device("cpu")
JPEGS = 384  # that are encoded in each round
LOADED = 5  # rounds with and without other programs
BUSY_SECONDS, QUIET_SECONDS = 3.0, 1.5  # of each measurement there
LOOP = "import os; parent = os.getppid()\nwhile os.getppid() == parent: sum(range(100_000))"

Figures = dict[str, Any]


def best_of_interleaved(
    *jobs: Callable[[], object],
    rounds: int = ROUNDS,
    clock: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """The shortest time of each job; they take turns, so a busy machine hits all alike."""
    best = [float("inf")] * len(jobs)
    for _ in range(rounds):
        for k, job in enumerate(jobs):
            began = clock()
            job()
            best[k] = min(best[k], clock() - began)
    return best


def network() -> nn.Module:
    torch.manual_seed(SEED)
    return build_network("preact_resnet18", (3, 32, 32), classes=10, width=16)


def bare(forwards: int) -> Callable[[], None]:
    """The least an epoch can cost: steps on one fixed batch."""
    net = network()
    x = torch.randn(BATCH, 3, 32, 32).to(memory_format=torch.channels_last)
    t = one_hot(torch.randint(10, (BATCH,)), 10)
    sgd = optim.SGD(net.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)

    def epoch() -> None:
        for _ in range(STEPS):
            with torch.no_grad():
                for _ in range(forwards - 1):
                    net(x)
            loss = cross_entropy(net(x), t)
            sgd.zero_grad()
            loss.backward()
            sgd.step()

    return epoch


def pixels() -> Tensor:
    generator = torch.Generator().manual_seed(SEED)
    return torch.randint(256, (BATCH * STEPS, 3, 32, 32), generator=generator, dtype=torch.uint8)


def looped(stage: Stage, images: Images | None = None) -> Callable[[], object]:
    """One epoch of the real loop: images, augmentation, batches, tables."""
    view = CropFlip(4, True, Normalise((0.5,) * 3, (0.25,) * 3))
    schedule = Schedule(epochs=1000, lr=((1, 0.1),), batch_size=BATCH)
    sgd, source = schedule.make_optimizer(stage.parameters()), images or TensorImages(pixels())

    def open_feed(epoch: int) -> Feed:
        return Feed(source, view, view, BATCH, epoch, (SEED,), CPU)

    epochs: Iterator[object] = fit(stage, open_feed, schedule, sgd)
    return lambda: next(epochs)


def measure_loop() -> Figures:
    """With the images in memory, and in a cache on disk."""
    targets = one_hot(torch.randint(10, (BATCH * STEPS,)), 10)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.images"
        write_packed(path, "bench", (3, 32, 32), [(pixels(), {})])
        found = open_packed(path, "bench")
        assert found is not None
        plain, memory, cache = best_of_interleaved(
            bare(1),
            looped(Classify(network(), targets)),
            looped(Classify(network(), targets), found[0]),
        )
    return {"loop_ratio": round(plain / memory, 3), "cached_ratio": round(plain / cache, 3)}


def write_jpegs(folder: Path, count: int) -> list[str]:
    """Pictures of the size of ImageNet's that are all different."""
    draws = np.random.default_rng(SEED)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [str(folder / f"{k}.jpg") for k in range(count)]
    for path in paths:
        scene = Image.fromarray(draws.integers(0, 256, (30, 40, 3), dtype=np.uint8))
        scene.resize((500, 375), Image.Resampling.BICUBIC).save(path, quality=90)
    return paths


def measure_decoding() -> Figures:
    """On one core, so threads do not count."""
    return {"decode_ratio": {str(size): round(decode_ratio(size), 2) for size in (64, 224)}}


def decode_ratio(size: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        paths = write_jpegs(Path(folder), 16)

        def plain() -> None:
            for path in paths:
                with Image.open(path) as image:
                    np.asarray(image.convert("RGB").resize((size, size)))

        simple, ours = best_of_interleaved(
            plain, lambda: [np.ascontiguousarray(decode(path, size, 3)) for path in paths]
        )
    return simple / ours


@contextmanager
def one_core() -> Iterator[None]:
    """All threads share one core, so figures are for a core."""
    threads, cores = torch.get_num_threads(), os.sched_getaffinity(0)
    torch.set_num_threads(1)
    os.sched_setaffinity(0, {max(cores)})
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        os.sched_setaffinity(0, cores)


def measure_encoder() -> Figures:
    """`lite0` at its own size and at that of its training; images a second for each way."""
    with one_core(), tempfile.TemporaryDirectory() as folder:
        for kind in ("a", "b"):
            write_jpegs(Path(folder) / "photos" / kind, JPEGS // 2)
        sizes = {str(size): encoder_speeds(Path(folder), size) for size in (128, 224)}
    ratios = {size: round(files / tensors, 2) for size, (files, tensors) in sizes.items()}
    speeds = {size: round(files, 1) for size, (files, _) in sizes.items()}
    return {"encoder_ratio": ratios, "encoder_images_per_second_and_core": speeds}


def encoder_speeds(folder: Path, size: int) -> tuple[float, float]:
    """Images a second of `drpl encode` on JPEG files, and of eager torch on tensors."""
    cache = folder / f"cache-{size}"
    encoder = load_encoder("lite0", size=size, device=CPU, cache=cache / "features")
    assert encoder.net is not None
    net, pixels = encoder.net, torch.zeros(JPEGS, 3, size, size, dtype=torch.uint8)

    def encode_files() -> None:
        for path in (cache / "features").iterdir():
            if path.suffix in (".rows", ".keys"):
                path.unlink()  # or they would be found there
        encode(str(folder / "photos"), size=size, read_options=ReadOptions(cache=cache))

    @torch.inference_mode()
    def encode_tensors() -> None:
        for part in pixels.split(ENCODED):
            net(part)

    # A core's own seconds: threads that decode count too, and what else the machine does not.
    files, tensors = best_of_interleaved(
        encode_files, encode_tensors, rounds=3, clock=time.process_time
    )
    return JPEGS / files, JPEGS / tensors


def measure_load() -> Figures:
    """How threads wait, which `drpl` sets, beside other programs and without them."""
    quiet = compare_waiting(QUIET_SECONDS)
    with busy_cores(2 * count_cores()):
        busy = compare_waiting(BUSY_SECONDS)
    speeds = {"busy": busy, "quiet": quiet}
    ratios = {f"{name}_ratio": round(ours / plain, 2) for name, (ours, plain) in speeds.items()}
    return {
        **ratios,
        "busy_images_per_second": [round(speed) for speed in busy],
        "quiet_images_per_second": [round(speed) for speed in quiet],
        "spin": SPIN,
    }


def compare_waiting(seconds: float) -> tuple[float, float]:
    """Most images a second with the variables that `drpl` sets and without; they take turns."""
    known = (*SPIN, "OMP_WAIT_POLICY", "OMP_NUM_THREADS")  # the Makefile sets some
    environment = {name: value for name, value in os.environ.items() if name not in known}
    script = Path(__file__).with_name("load.py")
    best = {"": 0.0, "--plain": 0.0}
    for _ in range(LOADED):
        for option in best:
            words = [sys.executable, str(script), str(seconds), *filter(None, [option])]
            said = subprocess.run(words, env=environment, check=True, capture_output=True).stdout
            best[option] = max(best[option], float(said))
    return best[""], best["--plain"]


@contextmanager
def busy_cores(count: int) -> Iterator[None]:
    """Run loops beside; they end with this process too, however that ends."""
    loops = [subprocess.Popen([sys.executable, "-c", LOOP]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def measure_ssl() -> Figures:
    targets = one_hot(torch.randint(10, (BATCH * STEPS,)), 10)
    clean = torch.rand(BATCH * STEPS) < 0.5
    stage = PseudoLabel(network(), targets, clean, SemiSupervised())
    plain, ours = best_of_interleaved(bare(2), looped(stage))
    return {"ssl_ratio": round(plain / ours, 3)}


def some_losses(count: int) -> Tensor:
    generator = torch.Generator().manual_seed(SEED)
    u = torch.rand(count, generator=generator)
    noisy = torch.rand(count, generator=generator) < 0.4
    return torch.where(noisy, 2 + 3 * u**1.5, 0.02 + 1.2 * u**3)


def plain_mixture(losses: Tensor) -> np.ndarray:
    """The textbook's way: two densities from scipy.stats in each of the ten rounds."""
    scale, middle = Scale.of(losses.double())
    x = scale(middle).numpy().clip(1e-4, 1 - 1e-4)
    a, b, w = np.array([1.0, 2.0]), np.array([2.0, 1.0]), np.array([0.5, 0.5])
    for _ in range(10):
        r = np.stack([w[k] * beta.pdf(x, a[k], b[k]) for k in range(2)]).clip(1e-12)
        r /= r.sum(0)
        m = (r * x).sum(1) / r.sum(1)
        v = (r * (x - m[:, None]) ** 2).sum(1) / r.sum(1)
        a = m * (m * (1 - m) / v - 1)
        b = a * (1 - m) / m
        w = r.mean(1)
    every = scale(losses.double()).numpy()
    low, high = (w[k] * beta.pdf(every, a[k], b[k]) for k in range(2))
    return np.asarray(high / (low + high + 1e-12))


def measure_mixture() -> Figures:
    losses = some_losses(1_000_000)
    ours = BetaMixture.fit(losses).noisy(losses).numpy()
    assert np.abs(ours - plain_mixture(losses)).mean() < 1e-3, "the two must agree"
    plain, fast = best_of_interleaved(
        lambda: plain_mixture(losses), lambda: BetaMixture.fit(losses).noisy(losses), rounds=3
    )
    return {"mixture_speedup": round(plain / fast, 1)}


def measure_growth() -> Figures:
    """From losses to a split, per sample."""
    per_sample = {}
    sizes = (1_000, 10_000, 100_000, 1_000_000)
    jobs = []
    for count in sizes:
        labels = torch.arange(count) % 10
        losses = some_losses(count)[None]
        evidence = Evidence("bench", losses, -losses, torch.zeros(count, 10))
        jobs.append(lambda e=evidence, y=labels: detect(e, y, 0.5, min_labelled=0.35))
    for count, seconds in zip(sizes, best_of_interleaved(*jobs), strict=True):
        per_sample[str(count)] = round(seconds / count * 1e9, 1)
    return {"growth": per_sample, "unit_of_growth": "nanoseconds per sample"}


MEASUREMENTS = {
    "loop": measure_loop,
    "ssl": measure_ssl,
    "decoding": measure_decoding,
    "mixture": measure_mixture,
    "growth": measure_growth,
    "encoder": measure_encoder,
    "load": measure_load,
}


def main() -> None:
    words = argparse.ArgumentParser(description="Speed ratios.")
    words.add_argument("names", nargs="*", choices=[[], *MEASUREMENTS], metavar="NAME")
    names, began = words.parse_args().names, time.perf_counter()
    figures: Figures = {}
    for name in names or MEASUREMENTS:
        figures |= MEASUREMENTS[name]()
    about = {
        "threads": torch.get_num_threads(),
        "versions": list_versions(),
        "seconds": round(time.perf_counter() - began, 1),
        "command": " ".join(["python benchmarks/bench.py", *names]) if names else "make bench",
    }
    if names:  # the other figures were measured at another time, perhaps with other versions
        kept = read_json(RESULT)
        since = {**kept.get("measured since", {}), **dict.fromkeys(names, about)}
        result = {**kept, **figures, "measured since": since}
    else:
        setting = "PreAct ResNet-18 of width 16, 32 x 32 images, batch 128"
        result = {**figures, "setting": setting, "seed": SEED, **about}
    write_json(RESULT, result)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
