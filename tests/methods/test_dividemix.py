from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import drpl
from drpl.data.dataset import DatasetSplits
from drpl.data.images import TensorImages
from drpl.data.transforms import Normalise
from drpl.detection.evidence import Evidence
from drpl.detection.gaussians import fit_lower_gaussian
from drpl.errors import TrainingError
from drpl.methods import dividemix as method
from drpl.networks.ensemble import Ensemble
from drpl.randomness import rng
from drpl.runs import model
from drpl.runs.dry_run import dry_run
from drpl.training.feed import Feed
from drpl.training.loop import fit
from drpl.training.losses import cross_entropy, mixup, one_hot
from tests.support.tiny import make_schedule, read_preset, tiny_config, tiny_network

SAMPLES, CLASSES = 24, 3
LABELS = torch.arange(SAMPLES) % CLASSES
EARLY = torch.arange(SAMPLES) < 8
CPU = torch.device("cpu")
SCHEDULE = make_schedule(1, (1, 0.1), batch_size=8)


class Noting(nn.Module):
    """A linear network that notes what it was shown, and how."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, CLASSES)
        self.shown: list[tuple[list[int], bool, bool]] = []  # samples, training, with gradient

    def forward(self, x: Tensor) -> Tensor:
        samples = x[:, 1].mul(SAMPLES).round().int().tolist()
        self.shown.append((samples, self.training, torch.is_grad_enabled()))
        logits: Tensor = self.linear(x)
        return logits


class Told(Feed):
    """Looks are given: the first network's and the second's."""

    looks: list[Tensor]

    def predict_all(self, net: nn.Module, *, augmented: bool = False) -> Tensor:
        return self.looks.pop(0)


def believing(wrong: Tensor) -> Tensor:
    """Log-probabilities of a network that doubts these samples' labels."""
    p = torch.where(wrong, 0.05, 0.9) + 0.01 * torch.rand(SAMPLES, generator=rng("jitter"))
    table = ((1 - p) / (CLASSES - 1))[:, None].repeat(1, CLASSES)
    return table.scatter(1, LABELS[:, None], p[:, None]).log()


def config(**more: Any) -> method.Config:
    return method.Config(schedule=SCHEDULE, begin=2, **more)


def stage_of(settings: method.Config) -> tuple[method.DivideMix, Noting, Noting]:
    torch.manual_seed(1)
    nets = Noting(), Noting()
    return method.DivideMix(nets, LABELS, CLASSES, settings), *nets


def told(first_doubts: Tensor, second_doubts: Tensor, epoch: int = 3) -> Told:
    """Sample k is the vector (noise, k / N)."""
    x = torch.stack([torch.randn(SAMPLES, generator=rng("x")), torch.arange(SAMPLES) / SAMPLES], 1)
    view = Normalise((0.0,) * 2, (1.0,) * 2)
    feed = Told(TensorImages(x), view, view, 8, epoch, (1, "test"), CPU)
    feed.looks = [believing(first_doubts), believing(second_doubts)]
    return feed


def test_refinement_believes_a_label_by_w() -> None:
    given, own = torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([[0.2, 0.8], [0.2, 0.8]])
    q = method.refine(torch.tensor([1.0, 0.25]), given, own)
    assert torch.allclose(q, torch.tensor([[1.0, 0.0], [0.25 + 0.75 * 0.2, 0.75 * 0.8]]))


def test_the_weight_of_guesses_rises_over_the_ramp() -> None:
    stage, *_ = stage_of(config(lambda_u=25.0, ramp=16.0))
    weights = [stage.weight(epochs) for epochs in (1.0, 2.0, 6.0, 10.0, 18.0, 40.0)]
    assert weights == [0, 0, 6.25, 12.5, 25, 25]


@pytest.mark.parametrize("reverse", [False, True])
def test_the_lower_of_two_heaps_is_the_clean_one(reverse: bool) -> None:
    low = 0.1 + 0.03 * torch.randn(60, generator=rng("low"))
    high = 0.8 + 0.05 * torch.randn(40, generator=rng("high"))
    w = fit_lower_gaussian(torch.cat([high, low] if reverse else [low, high]))
    clean = torch.arange(100) >= 40 if reverse else torch.arange(100) < 60
    assert bool((w[clean] > 0.95).all())
    assert bool((w[~clean] < 0.05).all())


def test_equal_losses_keep_every_label_and_bad_ones_are_said() -> None:
    assert bool((fit_lower_gaussian(torch.zeros(30)) > 0.5).all())
    with pytest.raises(TrainingError, match="not finite: training diverged"):
        fit_lower_gaussian(torch.tensor([0.1, float("nan"), 0.3]))


def test_losses_are_scaled_and_averaged_over_the_last_epochs() -> None:
    stage, *_ = stage_of(config(average_losses=2))  # warm-up is over after epoch 2
    ramp = torch.linspace(1, 3, SAMPLES)
    unit = torch.linspace(0, 1, SAMPLES)
    assert torch.allclose(
        stage.scale_losses([ramp, ramp.flip(0)], 3), torch.stack([unit, unit.flip(0)])
    )
    assert torch.allclose(stage.scale_losses([ramp**2] * 2, 4)[0], (unit + (ramp**2 - 1) / 8) / 2)
    assert torch.allclose(stage.scale_losses([ramp] * 2, 5)[0], (unit + (ramp**2 - 1) / 8) / 2)
    assert torch.allclose(stage.scale_losses([ramp] * 2, 6)[1], unit)  # the oldest is gone


@pytest.mark.parametrize("alpha", [0.5, 4.0])
def test_a_mixed_row_is_mostly_itself(alpha: float) -> None:
    own = []
    for k in range(50):
        _, t, _ = mixup(torch.zeros(6, 1), torch.eye(6), alpha, rng(k), mostly_own=True)
        assert torch.allclose(t.sum(1), torch.ones(6))
        own.append(float(t.diagonal().min()))
    assert min(own) >= 0.5
    assert max(own) > 0.6


def test_each_network_learns_from_what_the_other_divides() -> None:
    stage, first, second = stage_of(config())
    for _ in stage.epoch(told(first_doubts=EARLY, second_doubts=~EARLY)):
        pass

    def labelled(net: Noting) -> set[int]:
        """The first of the four groups it predicts in training mode, step by step."""
        own = [samples for samples, training, gradient in net.shown if training and not gradient]
        return {sample for x1 in own[::4] for sample in x1}

    assert labelled(first) == set(range(8))  # the second believes the early ones
    assert labelled(second) == set(range(8, SAMPLES))


def test_one_is_trained_after_the_other_and_the_peer_is_in_evaluation_mode() -> None:
    stage, first, second = stage_of(config())
    order = []
    for terms in stage.epoch(told(EARLY, EARLY)):
        torch.stack(list(terms.values())).sum().backward()
        trained = [net.linear.weight.grad is not None for net in (first, second)]
        assert sum(trained) == 1
        assert [first.training, second.training] == trained
        stage.zero_grad()
        order.append(trained.index(True))
    assert order == [0, 0, 1, 1]  # sixteen labelled samples each
    assert first.training
    assert second.training
    helped = {gradient for _, training, gradient in first.shown + second.shown if not training}
    assert helped == {False}


def test_the_optimiser_leaves_the_network_without_gradient_alone() -> None:
    """One SGD with momentum and decay is as good as one for each network."""

    class FirstOnly(method.DivideMix):
        def epoch(self, feed: Feed) -> Any:
            for net in self.net.members if feed.epoch == 1 else list(self.net.members)[:1]:
                for x, i in feed():
                    yield self.believe(net(x), i)

    torch.manual_seed(1)
    stage = FirstOnly((Noting(), Noting()), LABELS, CLASSES, config())
    feed = told(EARLY, EARLY)
    schedule = SCHEDULE.model_copy(update={"epochs": 2, "weight_decay": 0.1})

    def open_feed(epoch: int) -> Feed:
        view = feed.eval_transform
        return Feed(feed.images, view, view, schedule.batch_size, epoch, (1,), CPU)

    epochs = fit(stage, open_feed, schedule, schedule.make_optimizer(stage.parameters()))
    next(epochs)  # both move and gather momentum
    before = [{k: v.clone() for k, v in net.state_dict().items()} for net in stage.net.members]
    next(epochs)
    moved = [
        any(not torch.equal(v, old[k]) for k, v in net.state_dict().items())
        for net, old in zip(stage.net.members, before, strict=True)
    ]
    assert moved == [True, False]


def test_the_loss_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """One step, nothing mixed: refinement, guesses, three terms."""
    monkeypatch.setattr(method, "mixup", lambda x, q, *_, **__: (x, q, torch.arange(len(x))))
    stage, first, second = stage_of(config(lambda_u=8.0, ramp=4.0, temperature=0.5))
    feed = told(EARLY, EARLY, epoch=4)  # the second epoch after the warm-up: 8 (4 - 1 - 2) / 4
    images = feed.images.load(torch.arange(SAMPLES))
    w = fit_lower_gaussian(
        stage.scale_losses([-believing(EARLY).gather(1, LABELS[:, None])[:, 0]] * 2, 4)[1]
    )
    terms = next(iter(stage.epoch(feed)))
    own = [samples for samples, training, gradient in first.shown if training and not gradient]
    x, u = torch.tensor(own[0]), torch.tensor(own[2])
    assert own == [own[0], own[0], own[2], own[2]]  # a vector has but one view
    assert not bool(EARLY[x].any())
    assert bool(EARLY[u].all())
    with torch.no_grad():
        p, other = (net.linear(images).softmax(1) for net in (first, second))
        q_x = w[x, None] * one_hot(LABELS[x], CLASSES) + (1 - w[x, None]) * p[x]
        q_u = (p[u] + other[u]) / 2
        q_x, q_u = (q**2 / (q**2).sum(1, keepdim=True) for q in (q_x, q_u))
        mean = torch.cat([p[x], p[u]]).mean(0)
    assert torch.allclose(terms["labelled"], -(q_x * p[x].log()).sum(1).mean(), atol=1e-6)
    assert torch.allclose(terms["unlabelled"], 2 * (p[u] - q_u).square().mean(), atol=1e-6)
    assert torch.allclose(terms["prior"], -mean.log().mean(), atol=1e-6)


@pytest.mark.parametrize(("lambda_u", "rows"), [(0.0, 16), (25.0, 32)])
def test_without_lambda_u_only_the_labelled_half_is_forwarded(lambda_u: float, rows: int) -> None:
    stage, first, _ = stage_of(config(lambda_u=lambda_u))
    terms = next(iter(stage.epoch(told(EARLY, EARLY))))
    learnt = [len(samples) for samples, _, gradient in first.shown if gradient]
    assert learnt == [rows]
    assert ("unlabelled" in terms) == (lambda_u > 0)


def test_the_warm_up_has_double_batches_and_may_punish_confidence() -> None:
    stage, first, second = stage_of(config(penalty=True))
    steps = list(stage.epoch(told(EARLY, EARLY, epoch=2)))
    for net in (first, second):
        assert [len(samples) for samples, _, _ in net.shown] == [16, 8]
    samples = first.shown[0][0]
    with torch.no_grad():
        x = told(EARLY, EARLY).images.load(torch.tensor(samples))
        logits = first.linear(x)
        p = logits.softmax(1)
    wanted = cross_entropy(logits, one_hot(LABELS[samples], CLASSES))
    assert torch.allclose(steps[0]["classify"], wanted)
    assert torch.allclose(steps[0]["confidence"], (p * p.log()).sum(1).mean())
    stage, *_ = stage_of(config())
    assert {name for terms in stage.epoch(told(EARLY, EARLY, epoch=1)) for name in terms} == {
        "classify"
    }


def test_the_authors_settings() -> None:
    ten = read_preset(method.Config, "dividemix", "cifar10")
    assert (ten.begin, ten.alpha, ten.lambda_u, ten.p_threshold) == (10, 4, 25, 0.5)
    assert (ten.schedule.epochs, ten.schedule.batch_size) == (300, 64)
    assert (ten.schedule.lr_at(150), ten.schedule.lr_at(151)) == (0.02, 0.002)
    assert ten.schedule.weight_decay == 5e-4
    assert read_preset(method.Config, "dividemix", "cifar100").begin == 30
    web = read_preset(method.Config, "dividemix", "webvision")
    assert (web.begin, web.alpha, web.lambda_u, web.schedule.epochs) == (1, 0.5, 0, 80)
    assert (web.schedule.lr_at(40), web.schedule.lr_at(41)) == (0.01, 0.001)
    assert web.schedule.batch_size == 32


def trained(tiny: DatasetSplits, out: Path, **settings: Any) -> drpl.Result:
    return drpl.train(
        tiny,
        method="dividemix",
        config=tiny_config("dividemix", 4, settings),
        network=tiny_network,
        noise="uniform:0.3",
        out=out,
        quiet=True,
    )


def test_both_networks_judge_the_labels_and_both_are_saved(
    tiny: DatasetSplits, tmp_path: Path
) -> None:
    result = trained(tiny, tmp_path)
    samples = result.samples
    assert ((samples["p_noisy"] >= 0.5) == samples["flagged"]).all()
    assert samples["loss"].between(0, 1).all()  # scaled
    seen = {path.stem: Evidence.read(path) for path in (tmp_path / "evidence").glob("*.npz")}
    assert set(seen) == {"train", "train-1", "train-2"}
    scaled = [one.now - one.now.min() for name, one in seen.items() if name != "train"]
    wanted = torch.stack([loss / loss.max() for loss in scaled]).mean(0)
    assert torch.allclose(torch.tensor(samples["loss"].to_numpy()).float(), wanted, atol=1e-5)
    saved = model.load(tmp_path, tiny_network)
    assert isinstance(saved.net, Ensemble)
    assert torch.allclose(saved.predict(tiny.train.images), seen["train"].probs, atol=1e-5)


@pytest.mark.parametrize("setting", [{"penalty": True}, {"average_losses": 5}, {"lambda_u": 0}])
def test_other_choices_work(setting: dict[str, Any], tiny: DatasetSplits, tmp_path: Path) -> None:
    assert trained(tiny, tmp_path, **setting).detection


def test_too_few_labelled_samples_are_said(tiny: DatasetSplits, tmp_path: Path) -> None:
    with pytest.raises(drpl.DrplError, match="too few to learn from; lower p_threshold"):
        trained(tiny, tmp_path, p_threshold=1.0)


def test_a_dry_run_counts_the_passes_of_both_networks(tiny: DatasetSplits) -> None:
    config = tiny_config("dividemix", 4)
    experiment = drpl.Experiment.build(tiny, method="dividemix", config=config, noise="uniform:0.3")
    speeds: dict[Any, Any] = {}
    plans = [dry_run(experiment, speeds=speeds) for _ in range(2)]
    first, again = (plan.stages for plan in plans)
    assert [stage.stage for stage in first] == ["train"]
    assert first[0].epochs == 4
    assert 0 < first[0].steps <= 2 * 72 // 16  # labelled samples only, once for each network
    assert again[0].steps == first[0].steps
