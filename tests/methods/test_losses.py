"""The methods that change the loss: their equations by hand and by finite differences."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import drpl
from drpl.config.compose import compose
from drpl.data.dataset import DatasetSplits, Truth
from drpl.data.images import TensorImages
from drpl.data.transforms import Normalise
from drpl.errors import ConfigError
from drpl.methods import dmi, forward, gce, oracle_forward, reed
from drpl.methods.cross_entropy import Classify
from drpl.noise.confusion import Confusion
from drpl.noise.inject import inject
from drpl.randomness import rng
from drpl.registry import METHODS
from drpl.runs import display, history
from drpl.runs.display import Display
from drpl.runs.dry_run import dry_run
from drpl.runs.run import Machine, Run
from drpl.training import checkpoint
from drpl.training.evaluate import losses
from drpl.training.feed import Feed
from drpl.training.losses import cross_entropy, one_hot
from drpl.training.schedule import Schedule
from tests.conftest import tiny_config

OURS = ("reed", "forward", "oracle_forward", "gce", "dmi")
LOGITS = torch.tensor([[2.0, 0, 0], [0, 1, -1]], dtype=torch.float64)
LABELS = torch.tensor([0, 1])
T = torch.tensor([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.3, 0.6]], dtype=torch.float64)
FOUR = torch.tensor([[2.0, 0, 0], [0, 2, 0], [0, 0, 2], [1, 0, 0]], dtype=torch.float64)
FOUR_LABELS = torch.tensor([0, 1, 2, 0])


def gce_loss(logits: Tensor, labels: Tensor, q: float = 0.7) -> Tensor:
    return gce.generalised(-losses(logits.log_softmax(1), labels), q).mean()


def dmi_loss(logits: Tensor, labels: Tensor) -> Tensor:
    return dmi.dmi(logits, one_hot(labels, 3))


def feed(epoch: int, batch: int = 12) -> Feed:
    images = TensorImages(torch.randn(12, 4, generator=rng("x")))
    view = Normalise((0.0,) * 4, (1.0,) * 4)
    return Feed(images, view, view, batch, epoch, (1, "test"), torch.device("cpu"))


def net() -> nn.Module:
    torch.manual_seed(1)
    return nn.Linear(4, 3)


# --- equations


def test_values_worked_out_by_hand() -> None:
    assert float(gce_loss(LOGITS, LABELS)) == pytest.approx(0.287576, abs=5e-7)
    assert float(forward.corrected(LOGITS, LABELS, T)) == pytest.approx(0.536302, abs=5e-7)
    assert float(dmi_loss(FOUR, FOUR_LABELS)) == pytest.approx(0.243842, abs=5e-7)


@pytest.mark.parametrize(
    "loss",
    [
        gce_loss,
        dmi_loss,
        lambda logits, labels: forward.corrected(logits, labels, T),
        lambda logits, _: reed.hard(logits),
        lambda logits, _: reed.soft(logits),
    ],
)
def test_gradients_are_those_of_finite_differences(
    loss: Callable[[Tensor, Tensor], Tensor],
) -> None:
    logits = torch.randn(9, 3, generator=rng("logits"), dtype=torch.float64, requires_grad=True)
    labels = torch.arange(9) % 3
    assert torch.autograd.gradcheck(lambda x: loss(x, labels), logits)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_hopeless_samples_give_finite_losses_and_gradients(dtype: torch.dtype) -> None:
    """The probability of the given label is zero in floating point."""
    targets = torch.tensor([1, 2, 0, 1])
    for loss in (gce_loss, dmi_loss, lambda x, y: forward.corrected(x, y, T.float())):
        logits = (200 * one_hot(torch.tensor([0, 0, 1, 2]), 3)).to(dtype).requires_grad_()
        value = loss(logits, targets)
        (slope,) = torch.autograd.grad(value, logits)
        assert bool(value.isfinite())
        assert bool(slope.isfinite().all())


# --- generalised cross-entropy


def test_generalised_cross_entropy_lies_between_two_losses() -> None:
    p = LOGITS.softmax(1).gather(1, LABELS[:, None])
    assert torch.allclose(gce_loss(LOGITS, LABELS, 1.0), (1 - p).mean())
    plain = nn.functional.cross_entropy(LOGITS, LABELS)
    assert torch.allclose(gce_loss(LOGITS, LABELS, 1e-9), plain)


def gce_stage(**settings: object) -> gce.Generalised:
    schedule = Schedule(epochs=1, rates=((1, 0.1),))
    config = {"schedule": schedule, "pretrain_schedule": schedule, "start": "last", **settings}
    return gce.Generalised(net(), torch.arange(12) % 3, gce.Config(**config))  # type: ignore[arg-type]


def test_only_probable_labels_count_when_truncated() -> None:
    log_probs = torch.tensor([[0.6, 0.4], [0.5, 0.5], [0.1, 0.9]]).log()
    assert gce.probable(log_probs, torch.tensor([0, 0, 0]), 0.5).tolist() == [True, False, False]
    assert float(gce.generalised(torch.tensor(0.5).log(), 0.7)) == pytest.approx(0.54918, abs=5e-6)
    stage = gce_stage(truncate=True, k=0.4, prune_from=2)
    p = feed(2).look(stage.net).exp()[torch.arange(12), stage.labels]
    assert 0 < int((p > 0.4).sum()) < 12
    (terms,) = stage.epoch(feed(1))
    whole = ((1 - p**0.7) / 0.7 - (1 - 0.4**0.7) / 0.7).mean()
    assert torch.allclose(terms["gce"], whole)  # all count at first
    (terms,) = stage.epoch(feed(2))
    assert torch.equal(stage.weights, (p > 0.4).float())
    kept = ((p > 0.4) * ((1 - p**0.7) / 0.7 - (1 - 0.4**0.7) / 0.7)).mean()
    assert torch.allclose(terms["gce"], kept)


def test_weights_are_decided_anew_every_tenth_epoch() -> None:
    stage = gce_stage(truncate=True, prune_from=3)
    decided = []
    for epoch in range(1, 25):
        stage.weights.fill_(7)
        list(stage.epoch(feed(epoch)))
        if not bool((stage.weights == 7).all()):
            decided.append(epoch)
    assert decided == [3, 13, 23]


def test_nothing_is_left_out_unless_asked() -> None:
    stage = gce_stage(prune_from=1)
    (terms,) = stage.epoch(feed(1))
    assert bool((stage.weights == 1).all())
    p = feed(1).look(stage.net).exp()[torch.arange(12), stage.labels]
    assert torch.allclose(terms["gce"], ((1 - p**0.7) / 0.7).mean())


# --- forward correction


def test_correction_by_the_identity_is_cross_entropy() -> None:
    logits = 5 * torch.randn(50, 4, generator=rng("identity"), dtype=torch.float64)
    labels = torch.arange(50) % 4
    plain = nn.functional.cross_entropy(logits, labels)
    corrected = forward.corrected(logits, labels, torch.eye(4, dtype=torch.float64))
    assert torch.allclose(corrected, plain, rtol=0, atol=1e-14)


def test_a_label_that_the_matrix_calls_impossible_teaches_nothing() -> None:
    logits = LOGITS.clone().requires_grad_()
    impossible = torch.tensor([[0.0, 1, 0], [0, 1, 0], [0, 0, 1]], dtype=torch.float64)
    loss = forward.corrected(logits, torch.tensor([0, 0]), impossible)
    assert bool(loss.isfinite())
    assert torch.autograd.grad(loss, logits)[0].abs().max() < 1e-12


def test_anchors_pass_over_the_highest_predictions_of_a_class() -> None:
    """Of 200 samples six are above the 97th percentile of each column; the seventh is taken."""
    p = torch.empty(200, 2, dtype=torch.float64)
    p[:, 0] = torch.linspace(0.001, 0.999, 200, dtype=torch.float64)
    p[:, 1] = 1 - p[:, 0]
    p = p[torch.randperm(200, generator=rng("anchors"))]
    before = p.clone()
    ranked = p[:, 0].sort().values
    found = forward.by_anchors(p, 0.03)
    assert torch.equal(p, before)
    assert found[0].tolist() == pytest.approx([float(ranked[-7]), 1 - float(ranked[-7])])
    assert found[1].tolist() == pytest.approx([float(ranked[6]), 1 - float(ranked[6])])
    largest = forward.by_anchors(p, 0.0)
    assert float(largest[0, 0]) == pytest.approx(0.999)
    assert torch.allclose(found.sum(1), torch.ones(2, dtype=torch.float64))


def test_an_outlier_of_one_class_can_be_the_whole_anchor_of_another() -> None:
    """Zeros written over the outliers of class 0 would end up in the row of class 1."""
    p = torch.tensor([[0.2, 0.2, 0.6]]).repeat(200, 1)
    p[:6] = torch.tensor([0.1, 0.8, 0.1])  # outliers of class 1
    p[6:12] = torch.tensor([0.45, 0.1, 0.45])  # outliers of class 0 ...
    p[9] = torch.tensor([0.45, 0.5, 0.05])  # ... of which one is next in line for class 1
    found = forward.by_anchors(p, 0.03)
    assert found[1].tolist() == pytest.approx([0.45, 0.5, 0.05])
    assert float(found[0, 0]) == pytest.approx(0.2)


@pytest.mark.parametrize("classes", [34, 100])
def test_with_many_classes_the_anchor_is_the_largest(classes: int) -> None:
    """Three percent of the samples would be the whole class."""
    p = (3 * torch.randn(classes * 20, classes, generator=rng("many"))).softmax(1)
    found = forward.by_anchors(p, 0.03)
    for c in (0, classes - 1):
        assert torch.allclose(found[c], p[p[:, c].argmax()])


def test_the_matrix_is_estimated_once_after_plain_epochs() -> None:
    stage = forward.Forward(net(), torch.arange(12) % 3, 3, 2, outliers=0.03)
    x, i = next(iter(feed(1)()))
    (terms,) = stage.epoch(feed(1))
    targets = one_hot(stage.labels, 3)[i]
    assert torch.allclose(terms["forward"], cross_entropy(stage.net(x), targets))
    list(stage.epoch(feed(2)))
    assert torch.equal(stage.transition, torch.eye(3))
    estimate = forward.by_anchors(feed(3).look(stage.net).exp(), 0.03)
    (terms,) = stage.epoch(feed(3))
    assert torch.allclose(stage.transition, estimate)
    with torch.no_grad():
        next(stage.net.parameters()).mul_(3)
    (terms,) = stage.epoch(feed(4))
    assert torch.allclose(stage.transition, estimate)  # and never again
    by_matrix = (stage.net(x).softmax(1) @ estimate).log()
    assert torch.allclose(terms["forward"], losses(by_matrix, stage.labels[i]).mean())
    assert "transition" in stage.state_dict()


def test_a_matrix_can_be_given_in_a_file(tiny: DatasetSplits, tmp_path: Path) -> None:
    table = np.full((3, 3), 0.1) + 0.7 * np.eye(3)
    np.save(tmp_path / "t.npy", table)
    np.savetxt(tmp_path / "t.csv", table, delimiter=",")
    Confusion(torch.from_numpy(table), tiny.train.classes).write(tmp_path / "t.npz")
    for kind in ("npy", "csv", "npz"):
        assert np.allclose(forward.from_file(str(tmp_path / f"t.{kind}"), 3), table)
    config = tiny_config("forward", 3, f"matrix='{tmp_path / 't.npz'}'")
    out = tmp_path / "run"
    drpl.train(tiny, method="forward", config=config, noise="uniform:0.3", out=out, quiet=True)
    kept = checkpoint.read(out / "stages" / "train.pt")
    assert kept is not None
    assert torch.allclose(kept.stage["transition"], torch.from_numpy(table).float())


def test_files_that_hold_no_matrix_are_said(tmp_path: Path) -> None:
    (tmp_path / "empty.npy").touch()
    (tmp_path / "text.npz").write_text("no archive")
    np.savez(tmp_path / "words.npz", words=np.array(["a", "b"]))
    for name in ("empty.npy", "text.npz", "words.npz", "missing.csv"):
        with pytest.raises(ConfigError, match="cannot read a matrix from"):
            forward.from_file(str(tmp_path / name), 3)
    np.save(tmp_path / "two.npy", np.eye(2))
    with pytest.raises(ConfigError, match="is for 2 classes, the data have 3"):
        forward.from_file(str(tmp_path / "two.npy"), 3)


def test_the_true_matrix_is_counted_inside_the_classes_only() -> None:
    true = torch.tensor([0, 0, 0, 0, 1, 1, 99, 1])
    given = torch.tensor([0, 0, 1, 2, 1, 0, 0, 2])
    inside = torch.tensor([True] * 6 + [False] * 2)
    found = oracle_forward.counted(Truth(true, inside), given, 3)
    assert found.tolist() == [[0.5, 0.25, 0.25], [0.5, 0.5, 0], [0, 0, 1]]  # nobody is of class 2


def test_the_oracle_trains_through_the_true_matrix(tiny: DatasetSplits, tmp_path: Path) -> None:
    noisy, manifest = inject(tiny, "uniform:0.3", 1)
    data = replace(tiny, train=noisy)
    config = tiny_config("oracle_forward", 3)
    drpl.train(data, method="oracle_forward", config=config, out=tmp_path, quiet=True)
    kept = checkpoint.read(tmp_path / "stages" / "train.pt")
    assert kept is not None
    assert np.allclose(kept.stage["transition"], manifest["matrix"], atol=1e-6)


# --- bootstrapping


def test_bootstrapping_shares_the_target_with_the_prediction() -> None:
    p = LOGITS.softmax(1)
    guess = torch.tensor([0, 1])
    assert torch.allclose(reed.hard(LOGITS), nn.functional.cross_entropy(LOGITS, guess))
    assert torch.allclose(reed.soft(LOGITS), -(p * p.log()).sum(1).mean())
    for kind, beta in (("hard", 0.8), ("soft", 0.95)):
        targets = one_hot(torch.arange(12) % 3, 3)
        stage = reed.Bootstrap(net(), targets, kind, beta)  # type: ignore[arg-type]
        x, i = next(iter(feed(1)()))
        p = stage.net(x).softmax(1)
        own = one_hot(p.argmax(1), 3) if kind == "hard" else p
        (terms,) = stage.epoch(feed(1))
        mixed = beta * targets[i] + (1 - beta) * own
        assert torch.allclose(sum(terms.values()), -(mixed * p.log()).sum(1).mean())  # type: ignore[arg-type]


def test_soft_bootstrapping_is_more_than_scaled_cross_entropy() -> None:
    logits = LOGITS.clone().requires_grad_()
    (slope,) = torch.autograd.grad(reed.soft(logits), logits)
    assert slope.abs().max() > 0.01


# --- determinant


def test_class_dependent_noise_shifts_the_determinant_loss_and_nothing_else() -> None:
    """In expectation O becomes T^T O, whose determinant is det T times as large."""
    p = FOUR.softmax(1)
    joint = one_hot(FOUR_LABELS, 3).double().T @ p
    direct, noisy = torch.linalg.det(joint), torch.linalg.det(T.T @ joint)
    assert torch.allclose(noisy, direct * torch.linalg.det(T))


def test_a_missing_class_leaves_no_gradient() -> None:
    logits = FOUR.clone().requires_grad_()
    loss = dmi_loss(logits, torch.tensor([0, 1, 1, 0]))
    assert float(loss.detach()) == pytest.approx(-np.log(0.001))
    assert torch.equal(torch.autograd.grad(loss, logits)[0], torch.zeros_like(FOUR))


def test_many_classes_do_not_overflow() -> None:
    """128 to the power of 40 is beyond float32."""
    labels = torch.arange(40).repeat(128)
    loss = dmi.dmi(200 * one_hot(labels, 40), one_hot(labels, 40))
    assert float(loss) == pytest.approx(-40 * np.log(128))


def test_incomplete_batches_are_skipped_but_not_the_only_one() -> None:
    stage = dmi.Informative(net(), one_hot(torch.arange(12) % 3, 3))
    assert len(list(feed(1, 5)())) == 2  # five and five; two are too few for anybody
    assert len(list(feed(1, 12)())) == 1
    sizes = [(5, 2), (12, 1), (100, 1)]
    assert [len(list(stage.epoch(feed(1, batch)))) for batch, _ in sizes] == [n for _, n in sizes]
    images = TensorImages(torch.randn(20, 4, generator=rng("more")))
    view = Normalise((0.0,) * 4, (1.0,) * 4)
    more = dmi.Informative(net(), one_hot(torch.arange(20) % 3, 3))
    walk = Feed(images, view, view, 13, 1, (1, "test"), torch.device("cpu"))
    assert len(list(more.epoch(walk))) == 1  # thirteen, but not the seven that are left


@pytest.mark.parametrize(("size", "said"), [(29, True), (30, False)])
def test_small_batches_are_said(size: int, said: bool, tiny: DatasetSplits, tmp_path: Path) -> None:
    config = tiny_config("dmi", 2, f"schedule.batch_size={size}")
    result = drpl.train(
        tiny, method="dmi", config=config, noise="uniform:0.3", out=tmp_path, quiet=True
    )
    notes = [note for stage in result.summary["stages"] for note in stage["notes"]]
    assert any("give schedule.batch_size at least 30" in note for note in notes) == said


# --- the best-tested epoch


def run_in(folder: Path, data: DatasetSplits) -> Run:
    noisy, _ = inject(data, "uniform:0.3", 1)
    machine = Machine(torch.device("cpu"), save_every=0)
    config = tiny_config("cross_entropy")
    return Run(replace(data, train=noisy), config, 1, folder, machine, Display(quiet=True))


def fitted(run: Run, epochs: int, best: bool) -> dict[str, Tensor]:
    rates = ((1, 0.05), (5, 0.4))  # learns, then unlearns
    schedule = Schedule(epochs=epochs, rates=rates, batch_size=16)
    stage = Classify(run.network(), one_hot(run.labels, run.classes))
    return {
        k: v.clone()
        for k, v in run.fit("pretrain", stage, schedule, best=best).state_dict().items()
    }


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


def test_best_gives_the_best_tested_epoch(tiny: DatasetSplits, tmp_path: Path) -> None:
    found = fitted(run_in(tmp_path / "best", tiny), 8, best=True)
    rows = history.read(tmp_path / "best" / "history.jsonl")
    tested = [row["accuracy"] for row in rows]
    winner = tested.index(max(tested)) + 1
    assert winner < 8
    assert max(tested) > tested[-1]
    assert same(found, fitted(run_in(tmp_path / "short", tiny), winner, best=False))
    assert not same(found, fitted(run_in(tmp_path / "last", tiny), 8, best=False))
    again = fitted(run_in(tmp_path / "best", tiny), 8, best=True)  # a finished stage is loaded
    assert same(found, again)


def test_best_without_a_test_set_is_the_last(tiny: DatasetSplits, tmp_path: Path) -> None:
    data = replace(tiny, test=None)
    best, last = (fitted(run_in(tmp_path / str(b), data), 3, best=b) for b in (True, False))
    assert same(best, last)


def test_the_best_epoch_survives_being_killed(
    tiny: DatasetSplits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = fitted(run_in(tmp_path / "whole", tiny), 8, best=True)
    seen = 0
    report_epoch = display.StageDisplay.epoch

    def dying(self: display.StageDisplay, number: int, *what: object) -> None:
        nonlocal seen
        seen += 1
        if seen == 2:  # the second epoch of an attempt is lost: at most one is saved
            raise KeyboardInterrupt
        report_epoch(self, number, *what)  # type: ignore[arg-type]

    monkeypatch.setattr(display.StageDisplay, "epoch", dying)
    for _attempt in range(8):
        seen = 0
        try:
            resumed = fitted(run_in(tmp_path / "killed", tiny), 8, best=True)
        except KeyboardInterrupt:
            continue
    assert same(whole, resumed)


@pytest.mark.parametrize("method", ["gce", "dmi"])
def test_methods_go_on_from_where_they_are_told(
    method: str, tiny: DatasetSplits, tmp_path: Path
) -> None:
    """With a rate near zero the second stage leaves the weights as they were."""
    unlearning = "pretrain_schedule.rates=[[1, 0.05], [5, 0.4]]"
    still = ("schedule.rates=[[1, 1e-12]]", "schedule.epochs=1", unlearning)
    states = []
    for start in ("best", "last"):
        config = tiny_config(method, 8, *still, f"start={start}")
        out = tmp_path / start
        drpl.train(tiny, method=method, config=config, noise="uniform:0.3", out=out, quiet=True)
        first, second = (checkpoint.read(out / "stages" / f"{s}.pt") for s in ("pretrain", "train"))
        assert first is not None
        assert second is not None
        assert torch.allclose(
            first.stage["net.classify.weight"], second.stage["net.classify.weight"]
        )
        states.append(first.stage)
    assert not same(*states)


def test_only_the_papers_presets_look_at_the_test_set() -> None:
    for method in ("gce", "dmi"):
        schema = METHODS[method].load().Config
        starts = {
            preset: compose(schema, method, [preset], []).start
            for preset in ("cifar10", "cifar100", "imagenet32", "webvision", "small", "digits")
        }
        peeking = {preset for preset, start in starts.items() if start == "best"}
        assert peeking == {"cifar10", "cifar100", "imagenet32", "webvision"}


# --- settings


def test_the_papers_settings() -> None:
    fw = compose(forward.Config, "forward", ["cifar10"], [])
    assert (fw.begin, fw.schedule.epochs, fw.schedule.rate(100)) == (50, 200, 0.01)
    wv = compose(forward.Config, "forward", ["webvision"], []).schedule
    assert (wv.epochs, wv.rate(74), wv.rate(120)) == (125, 0.1, 0.001)
    g = compose(gce.Config, "gce", ["cifar10"], [])
    assert (g.q, g.truncate, g.k, g.schedule.epochs) == (0.7, False, 0.5, 120)
    d = compose(dmi.Config, "dmi", ["cifar100"], [])
    assert (d.schedule.epochs, d.schedule.rates) == (100, ((1, 1e-6),))
    assert compose(dmi.Config, "dmi", ["cifar10", "released"], []).schedule.batch_size == 256
    r = compose(reed.Config, "reed", ["cifar10"], [])
    assert (r.kind, r.beta.hard, r.beta.soft) == ("hard", 0.8, 0.95)


@pytest.mark.parametrize("preset", ["digits", "small"])
def test_small_presets_cost_no_more_than_cross_entropy(preset: str) -> None:
    for method in OURS:
        config = compose(METHODS[method].load().Config, method, [preset], [])
        schedules = [value for _, value in config if isinstance(value, Schedule)]
        assert sum(schedule.epochs for schedule in schedules) == 60


@pytest.mark.parametrize("method", OURS)
def test_a_dry_run_foresees_the_stages(method: str, tiny: DatasetSplits) -> None:
    plan = dry_run(tiny, method=method, config=tiny_config(method, 4), noise="uniform:0.3")
    stages = ["pretrain", "train"] if method in ("gce", "dmi") else ["train"]
    assert [stage.stage for stage in plan.stages] == stages
    assert all(stage.epochs == 4 and stage.steps > 0 for stage in plan.stages)
    assert plan.seconds > 0


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("reed", ("kind=soft",)),
        ("gce", ("truncate=true", "prune_from=2", "prune_every=1")),
        ("gce", ("start=best",)),
        ("forward", ("begin=0", "outliers=0.0")),
    ],
)
def test_other_choices_learn_too(
    method: str, settings: tuple[str, ...], tiny: DatasetSplits, tmp_path: Path
) -> None:
    config = tiny_config(method, 12, *settings)
    result = drpl.train(
        tiny, method=method, config=config, noise="uniform:0.3", out=tmp_path, quiet=True
    )
    assert (result.accuracy["last"] or 0) > 80
