"""What a recorder finds in three loops, and what it costs: python -m benchmarks.recorder

The loops are those of examples/own_loop.py on digits of which 40 % carry a wrong label, with the
same network, optimiser and seed; only the order of the samples differs. The cost is measured on
epochs with and without a recorder in turn, in seconds of the processor, on two networks: a small
convolutional one for images of 32 x 32 pixels, and two layers on 64 numbers, which is about as
little as a step can do; and for a batch by itself. Lightning and transformers must be there.
"""

import argparse
import runpy
import time
from importlib.metadata import version
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import drpl
from drpl.files import write_json
from drpl.runs.execute import list_versions

RESULTS = Path("benchmarks/results/recorder.json")
LOOPS = Path(__file__).parents[1] / "examples" / "own_loop.py"
BATCH, CLASSES = 128, 10


def main() -> None:
    words = argparse.ArgumentParser(description="The recorder in three loops, and its cost.")
    words.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    words.add_argument("--pairs", type=int, default=101, help="of epochs with and without")
    asked = words.parse_args()
    torch.set_num_threads(1)
    own: dict[str, Any] = runpy.run_path(str(LOOPS))
    aurocs = {str(seed): measure_loops(own, seed) for seed in asked.seeds}
    found = {
        "command": "python -m benchmarks.recorder",
        "auroc": aurocs,
        "widest": round(max(max(row.values()) - min(row.values()) for row in aurocs.values()), 4),
        "flagged_of_right_labels": count_false_alarms(own),
        "overhead": {
            "convolutional": measure_overhead(make_convolutional, (3, 32, 32), 256, asked.pairs),
            "two_layers": measure_overhead(make_layers, (64,), 4096, asked.pairs),
        },
        "microseconds_a_batch": {str(classes): time_batches(classes) for classes in (10, 100)},
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


def measure_overhead(make: Any, shape: tuple[int, ...], samples: int, pairs: int) -> dict[str, Any]:
    """The share by which a short epoch takes longer with a recorder, and what that varies by.

    Pairs follow each other closely, so that what else the machine does is the same for both.
    `share` is the time that is spent in the recorder itself, which varies less. The clock is read
    in both, and what that takes is not the recorder's.
    """
    torch.manual_seed(1)
    x, y = torch.rand(samples, *shape), torch.randint(0, CLASSES, (samples,))
    net, recorder = make(), drpl.Recorder(samples, CLASSES)
    optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9)
    train_epoch(net, optimizer, x, y, recorder)  # torch wakes up
    ratios, alone, inside = [], [], 0.0
    for pair in range(pairs):
        seconds = {}
        for records in ((True, False), (False, True))[pair % 2]:
            began = time.process_time()
            spent = train_epoch(net, optimizer, x, y, recorder if records else None)
            seconds[records] = time.process_time() - began
            inside += spent if records else -spent
        ratios.append(seconds[True] / seconds[False] - 1)
        alone.append(seconds[False])
    low, middle, high = quantiles(ratios, n=4)
    return {
        "samples": samples,
        "pairs": pairs,
        "milliseconds_a_step": round(1000 * median(alone) / (samples / BATCH), 3),
        "overhead": round(middle, 4),
        "quartiles": [round(low, 4), round(high, 4)],
        "share": round(inside / sum(alone), 4),
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


def train_epoch(
    net: nn.Module,
    optimizer: torch.optim.Optimizer,
    x: Tensor,
    y: Tensor,
    recorder: drpl.Recorder | None,
) -> float:
    """A plain loop, and the seconds in the recorder; what it still holds is taken in too.

    Without one, the seconds are those of reading the clock.
    """
    spent = 0.0
    dataset = TensorDataset(x, y, torch.arange(len(x)))
    for images, labels, index in DataLoader(dataset, BATCH, shuffle=True):
        logits = net(images)
        began = time.process_time()
        if recorder:
            recorder.record(index, logits)
        spent += time.process_time() - began
        loss = cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    began = time.process_time()
    if recorder:
        recorder.state_dict()
    return spent + time.process_time() - began


def make_convolutional() -> nn.Module:
    layers: list[nn.Module] = []
    for before, after in ((3, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * 16, CLASSES))


def make_layers() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, CLASSES))


def _list_loops() -> dict[str, str]:
    return {name: version(name) for name in ("lightning", "transformers", "accelerate")}


if __name__ == "__main__":
    main()
