"""Wrong labels that people made, found from pixels alone: DRPL and small loss at the same cost.

    python -m benchmarks.humans_scratch --data-dir FOLDER [--seeds 1 2 3]
    python -m benchmarks.humans_scratch --data-dir FOLDER --gains

The first 20,000 training images of CIFAR-10N at 16 x 16 pixels, a PreAct ResNet-18 of width 16, 41
looks at every image: 820,000, of which a semi-supervised step takes two, as it predicts an image
before it learns from it. `--gains` says what each change to DRPL is worth. It is for choosing, so
it takes other labels (the second person's where it is wrong, else the third's), seed 11 and half
the images. A seed takes 20 minutes of one core or more. What is finished is kept in the folder of
`--out` and in the tables, and is not done again.
"""

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from torch import Tensor

from drpl import files
from drpl.config.compose import merge
from drpl.data.dataset import DatasetSplits
from drpl.data.locate import locate
from drpl.data.readers.cifar_n import read_human_labels
from drpl.data.sources import ReadOptions, load
from drpl.detection.evidence import Evidence
from drpl.networks.build import build_network
from drpl.report.table import to_csv
from drpl.runs.execute import execute, list_versions
from drpl.runs.experiment import Execution, Experiment
from drpl.runs.folder import Result
from drpl.runs.run import Context
from drpl.training import checkpoint
from drpl.training.evaluate import label_losses, label_margins, predict

IMAGES, SIDE, WIDTH, BATCH, RATE = 20_000, 16, 16, 128, 0.1
LOOKS = 41  # at every image; each change's gain is measured with half as many
FIRST, LATE = 0.75, 0.9  # of the looks for stage 1; of that stage before labels are replaced
LEAST = 1e-12  # probability that a logarithm is taken of
RESULTS = Path("benchmarks/results/humans")
KEY = ["labels", "method", "seed"]  # of a run in the table

Settings = Mapping[str, Any]
Looks = dict[str, dict[str, Tensor]]  # by stage, and by what a mean is taken over: [N, C]
Row = dict[str, Any]


def main() -> None:
    words = argparse.ArgumentParser(description="Human label noise, from scratch.")
    words.add_argument("--out", type=Path, default=Path("runs/humans-scratch"), help="the runs")
    words.add_argument("--results", type=Path, default=RESULTS)
    words.add_argument("--data-dir", type=Path, help="where the data sets are")
    words.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    words.add_argument("--methods", nargs="+", choices=METHODS, default=USUAL)
    words.add_argument("--gains", action="store_true", help="what each change is worth")
    words.add_argument("--looks", type=int, help="at every image")
    words.add_argument("--width", type=int, default=WIDTH, help="of the network")
    asked = words.parse_args()
    options = ReadOptions(size=SIDE, data_dir=asked.data_dir)
    looks, name = asked.looks or LOOKS, "scratch"
    if asked.gains:
        looks, name = asked.looks or LOOKS // 2, "scratch-gains"
        data, cases = read_worse_of_two(options), list_changes(looks)
        seeds = [11] if asked.seeds == [1, 2, 3] else asked.seeds
    else:
        data, seeds = read_worse(options), asked.seeds
        cases = {method: METHODS[method](looks) for method in asked.methods}
    for seed in seeds:
        for method, settings in cases.items():
            rows = run(data, method, settings, seed, asked.width, asked.out / name)
            keep(asked.results, name, rows)
    write_about(asked.results / f"{name}.json", data, asked.width, looks, asked.gains)


def read_worse(options: ReadOptions) -> DatasetSplits:
    """The labels that are reported: the worst of three people's."""
    data = load("cifar10n:worse_label", options)
    return replace(data, train=data.train.select(torch.arange(IMAGES)), test=None)


def read_worse_of_two(options: ReadOptions) -> DatasetSplits:
    """Labels to choose by: the second person's where it is wrong, else the third's."""
    data = read_worse(options)
    known = read_human_labels(locate("cifar10n", options) / "CIFAR-10_human.pt")
    second, third = (known[f"random_label{k}"][:IMAGES] for k in (2, 3))
    labels = torch.where(second != known["clean_label"][:IMAGES], second, third)
    return replace(data, name="worse of two", train=replace(data.train, labels=labels))


# ------------------------------------------------------------------ what is trained


def share_out(looks: int, first: float, begin: float, **schedule: Any) -> dict[str, Any]:
    """DRPL's schedules for that many looks, a share of them for stage 1 and the rest for stage 2.

    `begin` is the share of stage 1 after which labels are replaced.
    """
    relabel = round(first * looks)
    detect, same = (looks - relabel) // 2, {"batch_size": BATCH, **schedule}
    return {
        "relabel": {"begin": round(begin * relabel), "window": max(2, round(0.2 * relabel))},
        "relabel_schedule": {**make_rates(relabel), **same},
        "detect_schedule": {**make_rates(detect), **same},
        "warmup_schedule": {"epochs": max(1, detect // 4), "lr": [[1, RATE]], **same},
    }


def make_rates(epochs: int) -> dict[str, Any]:
    """So many epochs, with a rate that falls after two thirds."""
    return {"epochs": epochs, "lr": [[1, RATE], [1 + round(2 * epochs / 3), RATE / 10]]}


def list_changes(looks: int) -> dict[str, Settings]:
    """DRPL in stages of one length, and with one change more each time.

    The means over views, epochs and stages are further rows of each of these runs.
    """
    cycle = {"cycle": True, "nesterov": True, "weight_decay": 5e-4}
    warm = {"warm_start": True, "detect_schedule": {"lr": [[1, 0.03]]}}
    return {
        "drpl": share_out(looks, 0.5, 0.5),
        "drpl, one cycle": share_out(looks, 0.5, 0.5, **cycle),
        "drpl, late relabelling": share_out(looks, 0.5, LATE, **cycle),
        "drpl, warm start": merge(share_out(looks, 0.5, LATE, **cycle), warm),
        "drpl, long first stage": merge(share_out(looks, FIRST, LATE, **cycle), warm),
    }


def plan_drpl(looks: int) -> Settings:
    """`drpl:fast`, its epochs shared out such that it looks as often as the others."""
    plan = share_out(looks, FIRST, LATE)
    del plan["warmup_schedule"]
    plan["detect_schedule"].pop("lr")  # the overlay's own: it goes on from a trained network
    return plan


def plan_small_loss(looks: int) -> Settings:
    """Cross-entropy with the same cycle of rates."""
    return {"schedule": {"epochs": looks, "lr": [[1, RATE]], "batch_size": BATCH}}


def plan_drpl_steps(looks: int) -> Settings:
    """The preset `small`, whose rates fall in steps, in stages of about one length."""
    return {"pool": True, **share_out(looks, 0.45, 0.45)}


def plan_small_loss_steps(looks: int) -> Settings:
    """Cross-entropy with a rate that falls after two thirds."""
    return {"schedule": {**make_rates(looks), "batch_size": BATCH}}


METHODS = {
    "drpl:fast": plan_drpl,
    "cross_entropy:fast": plan_small_loss,
    "drpl, steps": plan_drpl_steps,
    "cross_entropy, steps": plan_small_loss_steps,
}
USUAL = ("drpl:fast", "cross_entropy:fast")


def run(
    data: DatasetSplits, name: str, settings: Settings, seed: int, width: int, out: Path
) -> list[Row]:
    """Train a case, and judge by everything that its networks say: the rows of the table."""
    method, *overlay = name.partition(",")[0].split(":")
    experiment = Experiment.build(
        data,
        method=method,
        preset=["small", *overlay],
        settings={"width": width, "flip": True, **settings},
        seed=seed,
        goal="detect",
    )
    folder = out / files.slugify(name) / f"seed-{seed}"
    result = execute(experiment, Execution(folder=folder))
    about = {"labels": data.name, "method": name, "seed": seed, "images": count_images(result)}
    rows = judge(experiment, folder, [one["stage"] for one in result.summary["stages"]])
    print(pd.DataFrame(rows).to_string(), flush=True)
    return [{**about, **row} for row in rows]


def count_images(result: Result) -> int:
    """Images that networks looked at in training; a semi-supervised step takes two looks."""
    return sum(row["images"] * (2 if row["stage"] == "detect" else 1) for row in result.history)


# ------------------------------------------------------------------ how it is judged


def judge(experiment: Experiment, folder: Path, splits: list[str]) -> list[Row]:
    """How well each mean of predictions, and the run's own last split, finds wrong labels."""
    labels, truth = experiment.data.train.labels, experiment.data.train.truth
    assert truth is not None
    wrong, rows = truth.is_noisy(labels).numpy(), []
    for stage, ways in look(experiment, folder, splits).items():
        for way, probs in ways.items():
            log_probs = probs.clamp(min=LEAST).log()
            losses, margins = label_losses(log_probs, labels), label_margins(log_probs, labels)
            for name, score in (("loss", losses), ("margin", -margins)):
                rows.append({**place(stage, way, name), **measure(score.numpy(), wrong)})
    with np.load(folder / "splits" / f"{splits[-1]}.npz") as split:
        rows.append(
            {**place(splits[-1], "the run itself", "loss"), **measure(split["losses"], wrong)}
        )
    return rows


def place(stage: str, mean_over: str, score: str) -> Row:
    """Where a row stands in the table."""
    return {"stage": stage, "mean over": mean_over, "score": score}


def look(experiment: Experiment, folder: Path, splits: list[str]) -> Looks:
    """What the stages predict, each and together."""
    stages = [name for name in ("relabel", "detect", "train") if name in splits]
    seen: Looks = {stage: look_all_ways(experiment, folder, stage) for stage in stages}
    if len(stages) > 1:
        ways = seen[stages[0]]
        seen["both"] = {way: torch.stack([seen[s][way] for s in stages]).mean(0) for way in ways}
    return seen


def look_all_ways(experiment: Experiment, folder: Path, stage: str) -> dict[str, Tensor]:
    """What a stage's network predicts [N, C], by what the mean is taken over."""
    kept = Evidence.read(folder / "evidence" / f"{stage}.npz").mean_probs
    assert kept is not None
    context = Context.build(experiment, torch.device("cpu"))
    views = context.list_views(augmented=False, mirrored=True)
    net = load_network(context, folder, stage)
    one, other = (predict(net, context.images, view, context.device).exp() for view in views)
    two = (one + other) / 2
    return {"one view": one, "two views": two, "epochs": kept, "all": (two + kept) / 2}


def load_network(context: Context, folder: Path, stage: str) -> torch.nn.Module:
    """The network at the end of a stage."""
    shape = context.eval_transform.output_shape(context.images.shape)
    net = build_network(context.network, shape, context.classes, context.width)
    found = checkpoint.read(folder / "stages" / f"{stage}.pt")
    assert found is not None
    weights = {k.removeprefix("net."): v for k, v in found.stage.items() if k.startswith("net.")}
    net.load_state_dict(weights)
    return net


def measure(scores: NDArray[Any], wrong: NDArray[Any]) -> dict[str, float]:
    """AUROC, and the share of wrong ones among as many of the highest as there are wrong ones."""
    top = np.argsort(-scores, kind="stable")[: wrong.sum()]
    return {"auroc": float(roc_auc_score(wrong, scores)), "precision": float(wrong[top].mean())}


# ------------------------------------------------------------------ what is kept


def keep(results: Path, name: str, rows: list[dict[str, Any]]) -> None:
    """Put the rows of a run into the table, in place of those it had."""
    path, new = results / f"{name}.csv", pd.DataFrame(rows)
    if path.exists():
        old = pd.read_csv(path)
        mine = (old[KEY] == new[KEY].iloc[0]).all(axis=1)
        new = pd.concat([old[~mine], new])
    files.write_atomic(path, to_csv(new.sort_values(KEY, kind="stable")))


def write_about(path: Path, data: DatasetSplits, width: int, looks: int, gains: bool) -> None:
    """What the table was made from."""
    labels, truth = data.train.labels, data.train.truth
    assert truth is not None
    about = {
        "command": f"python -m benchmarks.humans_scratch{' --gains' if gains else ''}",
        "samples": len(labels),
        "wrong": int(truth.is_noisy(labels).sum()),
        "width": width,
        "looks at every image": looks,
        "versions": list_versions(),
    }
    files.write_json(path, about)


if __name__ == "__main__":
    main()
