"""What a recorder finds in three loops, and what it costs: python -m benchmarks.recorder

The loops are those of examples/own_loop.py on digits of which 40 % carry a wrong label, with the
same network, optimiser and seed; only the order of the samples differs. The cost is measured on
these loops with and without a recorder in turn, in seconds of the processor: with their small
convolutional network, and with two linear layers, which is about as little as a step can do; and
for a batch by itself. Lightning and transformers must be there.
"""

import argparse
import runpy
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from statistics import quantiles
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

import drpl
from drpl.files import write_json
from drpl.runs.execute import list_versions

RESULTS = Path("benchmarks/results/recorder.json")
LOOPS = Path(__file__).parents[1] / "examples" / "own_loop.py"
BATCH, CLASSES, MANY = 128, 10, (10, 100, 1000)


def main() -> None:
    words = argparse.ArgumentParser(description="The recorder in three loops, and its cost.")
    words.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    words.add_argument("--pairs", type=int, default=31, help="of runs with and without")
    asked = words.parse_args()
    torch.set_num_threads(1)
    own: dict[str, Any] = runpy.run_path(str(LOOPS))
    networks = {"convolutional": own["make_network"], "two_layers": make_two_layers}
    aurocs = {str(seed): measure_loops(own, seed) for seed in asked.seeds}
    found = {
        "command": f"python -m benchmarks.recorder --pairs {asked.pairs}",
        "auroc": aurocs,
        "widest": round(max(max(row.values()) - min(row.values()) for row in aurocs.values()), 4),
        "flagged_of_right_labels": count_false_alarms(own),
        "overhead": {
            title: {name: measure_loop(own, name, network, asked.pairs) for name in own["LOOPS"]}
            for title, network in networks.items()
        },
        "microseconds_a_batch": {
            str(classes): time_batches(classes) for classes in (10, 100, 1000)
        },
        "versions": list_versions() | _list_loops(),
    }
    write_json(RESULTS, found)
    print(found)


def measure_loops(own: dict[str, Any], seed: int) -> dict[str, float]:
    """The AUROC of each loop on the same data."""
    data, found = own["read"](seed), {}
    for name, train in own["LOOPS"].items():
        recorder = drpl.Recorder(len(data.x), CLASSES)
        train(data, recorder, seed)
        found[name] = round(own["measure_auroc"](recorder, data), 4)
    return found


def count_false_alarms(own: dict[str, Any]) -> dict[str, int]:
    """How many labels are called wrong where all are right."""
    data = own["read"]()
    recorder = drpl.Recorder(len(data.x), CLASSES)
    own["train_plain"](data._replace(given=data.true), recorder)
    return {"flagged": int(recorder.issues(data.true).flagged.sum()), "samples": len(data.x)}


class Silent:
    """In place of a recorder, in a loop that records nothing."""

    def record(self, index: Tensor, logits: Tensor) -> None:
        """Nothing."""

    def make_lightning_callback(self) -> Any:
        """One that does nothing."""
        from lightning import Callback

        return Callback()

    def make_transformers_callback(self) -> Any:
        """One that does nothing."""
        from transformers import TrainerCallback

        return TrainerCallback()

    def state_dict(self) -> None:
        """Nothing."""


def measure_loop(
    own: dict[str, Any], name: str, network: Callable[[int], nn.Module], pairs: int
) -> dict[str, Any]:
    """What a recorder adds to a whole loop; what waits at the end is taken in too."""
    data, train = own["read"](), own["LOOPS"][name]
    steps = own["EPOCHS"] * -(-len(data.x) // own["BATCH"])

    def run(records: bool) -> float:
        recorder: Any = drpl.Recorder(len(data.x), CLASSES) if records else Silent()
        began = time.process_time()
        with patch.dict(train.__globals__, make_network=network):
            train(data, recorder)
        recorder.state_dict()
        return time.process_time() - began

    return compare_pairs(run, steps, pairs)


def compare_pairs(run: Callable[[bool], float], steps: int, pairs: int) -> dict[str, Any]:
    """The share by which `run` takes longer with a recorder, and what that varies by.

    Pairs follow each other closely, so that what else the machine does is the same for both.
    `overhead` compares the fastest of each, which other work disturbs least; `median` and
    `quartiles` are of the pairs.
    """
    run(True), run(False)  # torch wakes up
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for pair in range(pairs):
        for records in ((True, False), (False, True))[pair % 2]:
            seconds[records].append(run(records))
    ratios = [one / other - 1 for one, other in zip(*seconds.values(), strict=True)]
    low, middle, high = quantiles(ratios, n=4)
    fastest = min(seconds[False])
    return {
        "pairs": pairs,
        "milliseconds_a_step": round(1000 * fastest / steps, 3),
        "microseconds_of_recording": round(1e6 * (min(seconds[True]) - fastest) / steps, 1),
        "overhead": round(min(seconds[True]) / fastest - 1, 4),
        "median": round(middle, 4),
        "quartiles": [round(low, 4), round(high, 4)],
    }


def time_batches(classes: int, samples: int = 16_384) -> float:
    """What a batch of 128 costs by itself: the fastest of some epochs of nothing else."""
    recorder, seconds = drpl.Recorder(samples, classes), []
    for _ in range(50):
        batches = torch.randperm(samples).split(BATCH)
        logits = torch.randn(BATCH, classes)
        began = time.process_time()
        for index in batches:
            recorder.record(index, logits)
        recorder.state_dict()
        seconds.append(time.process_time() - began)
    return round(1e6 * min(seconds) / (samples / BATCH), 1)


def make_two_layers(seed: int) -> nn.Module:
    """About as little as a step can do."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, CLASSES))


def _list_loops() -> dict[str, str]:
    return {name: version(name) for name in ("lightning", "transformers", "accelerate")}


if __name__ == "__main__":
    main()
