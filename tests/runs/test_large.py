"""Runs whose tables are above the budget: mapped, saved in parts, continued to the last bit."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import drpl
from drpl.data.dataset import DatasetSplits
from drpl.training import checkpoint, tables
from tests.support.killing import Killed, KillInSecondEpoch
from tests.support.tiny import tiny_config, tiny_network

FILES = ("model.safetensors", "samples.csv", "evidence/relabel.npz")

# Two epochs of relabelling and one of the retraining, with a linear network of few inputs.
MILLION = """
import json, resource, sys, time
from pathlib import Path
import torch
from torch import nn
import drpl
from drpl.data.dataset import DatasetSplits, in_memory
from drpl.methods.joint import Config

out, samples, classes = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(1)
labels = torch.arange(samples) % classes
vectors = torch.randn(samples, 4)
names = tuple(map(str, range(classes)))
data = DatasetSplits("many", in_memory(vectors, labels, names), None, (0.0,) * 4, (1.0,) * 4)
short = {"epochs": 1, "lr": ((1, 0.1),), "batch_size": 8192}
config = Config(
    relabel={"begin": 1},
    relabel_schedule=short | {"epochs": 2},
    retrain_schedule=short,
    network="linear",
)
began, cpu = time.perf_counter(), time.process_time()
result = drpl.train(data, method="joint", config=config, out=out, quiet=True)
usage = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({
    "peak": usage.ru_maxrss * 1024,
    "seconds": time.perf_counter() - began,
    "cpu seconds": time.process_time() - cpu,
    "samples": result.summary["samples"],
}))
"""


@pytest.mark.parametrize("method", ["joint", "drpl", "nlnl", "elr", "elr_plus", "sop", "pls"])
def test_mapped_tables_resume_to_the_last_bit(
    method: str, tiny: DatasetSplits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every attempt dies in its second epoch, before that epoch is saved."""
    monkeypatch.setattr(tables, "BUDGET", 500)
    monkeypatch.setattr(tables, "PART", 300)
    monkeypatch.setattr(checkpoint, "PART", 200)
    monkeypatch.setattr("os.fsync", lambda _: None)  # no test cuts the power
    experiment = drpl.Experiment.build(
        tiny,
        method=method,
        config=tiny_config(method, 4),
        network=tiny_network,
        noise="uniform:0.3",
    )
    drpl.execute(experiment, drpl.Execution(tmp_path / "whole", save_every=60, quiet=True))
    attempts, killed = 0, tmp_path / "killed"
    while not (killed / "result.json").exists():
        attempts += 1
        try:
            how = drpl.Execution(killed, save_every=0, quiet=True, on_epoch=KillInSecondEpoch())
            drpl.execute(experiment, how)
        except Killed:
            assert attempts < 100
    assert attempts > 3
    relabels = method in ("joint", "drpl")
    stage = "relabel" if relabels else "train"
    assert any((killed / "stages" / f"{stage}.parts").iterdir())
    for name in FILES if relabels else FILES[:2]:
        assert (killed / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


@pytest.mark.slow
def test_a_million_samples_of_a_thousand_classes_fit_into_16_gigabytes(tmp_path: Path) -> None:
    if shutil.disk_usage(tmp_path).free < 90e9:
        pytest.skip("it takes 75 GB of the disk")
    words = [sys.executable, "-c", MILLION, str(tmp_path), "1000000", "1000"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["peak"] < 14e9
