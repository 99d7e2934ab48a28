"""Methods with tables of their own: a mixture, learnt labels, recent predictions, two networks."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.special import betaincinv
from torch import Tensor, nn
from torch.autograd import gradcheck
from torch.nn import functional

import drpl
from drpl.config.compose import Common, compose
from drpl.data.dataset import DatasetSplits
from drpl.data.images import TensorImages
from drpl.data.transforms import Normalise
from drpl.detection.evidence import Evidence
from drpl.detection.mixture import BetaMixture, Scale
from drpl.methods import bootstrap, coteaching, mixup, nlnl, pencil
from drpl.networks.ensemble import Ensemble
from drpl.randomness import rng
from drpl.registry import METHODS
from drpl.runs import model
from drpl.runs.dry_run import dry_run
from drpl.training import feed as feeding
from drpl.training.evaluate import losses
from drpl.training.feed import Feed
from drpl.training.losses import cross_entropy, entropy, from_uniform, one_hot
from drpl.training.stage import Stage
from tests.conftest import tiny_config

MINE = ("bootstrap", "pencil", "nlnl", "coteaching")
LABELS = torch.arange(24) % 3
GIVEN = one_hot(LABELS, 3)
LOGITS = torch.tensor([[2.0, 0, 0], [0, 1, -1]])
Steps = list[dict[str, float]]


def feed(epoch: int, batch: int = 24) -> Feed:
    images = TensorImages(torch.randn(24, 4, generator=rng("x")))
    view = Normalise((0.0,) * 4, (1.0,) * 4)
    return Feed(images, view, view, batch, epoch, (1, "test"), torch.device("cpu"))


def net(seed: int = 1) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Linear(4, 3)


def passed(stage: Stage, epoch: int, batch: int = 24, processes: int = 1) -> Steps:
    """The terms of an epoch whose gradients are taken but not followed."""
    steps = []
    stage.train()
    for terms in stage.epoch(feed(epoch, batch)):
        stage.zero_grad()
        (torch.stack(list(terms.values())).sum() / processes).backward()
        steps.append({name: term.item() for name, term in terms.items()})
    return steps


def config(method: str, *settings: str) -> Common:
    return compose(METHODS[method].load().Config, method, ["cifar10"], settings)  # type: ignore[no-any-return]


def bootstrapping(*settings: str) -> bootstrap.Config:
    found = config("bootstrap", "begin=3", *settings)
    assert isinstance(found, bootstrap.Config)
    return found


def batch_of(epoch: int) -> tuple[Tensor, Tensor]:
    x, i = next(iter(feed(epoch)()))
    return x, i


def nll(f: Tensor, labels: Tensor) -> Tensor:
    return functional.nll_loss(f, labels, reduction="none")


class Fixed(bootstrap.Bootstrap):
    """Bootstrapping whose w is given."""

    w = torch.zeros(24)

    def noisy(self, x: Tensor, i: Tensor) -> Tensor:
        return self.w[i][:, None]


# Bootstrapping


def test_bootstrapping_begins_as_mixup_with_alpha_32() -> None:
    stage = bootstrap.Bootstrap(net(), GIVEN, bootstrapping())
    for epoch in (1, 2):
        assert passed(stage, epoch, 8) == passed(mixup.Mixup(net(), GIVEN, 32.0), epoch, 8)
    assert set(passed(stage, 3)[0]) == {"bootstrap", "prior"}


def test_without_noise_bootstrapping_is_mixup_and_the_prior() -> None:
    stage, plain = Fixed(net(), GIVEN, bootstrapping()), mixup.Mixup(net(), GIVEN, 32.0)
    for ours, theirs in zip(passed(stage, 3, 8), passed(plain, 3, 8), strict=True):
        assert ours["bootstrap"] == theirs["mixup"]
        assert ours["prior"] >= np.log(3) - 1e-6  # its least: all classes alike


@pytest.mark.parametrize("kind", ["hard", "soft"])
def test_the_bootstrapped_loss_is_the_papers(kind: str) -> None:
    stage = Fixed(net(), GIVEN, bootstrapping(f"kind={kind}", "prior=0.5"))
    stage.w = torch.rand(24, generator=rng("w"))
    x, i = batch_of(3)
    w, y = stage.w[i], LABELS[i]
    draws = feed(3).rng
    weight = float(betaincinv(32, 32, float(torch.rand((), generator=draws, dtype=torch.float64))))
    partner = torch.randperm(24, generator=draws)
    with torch.no_grad():
        plain = stage.net(x).softmax(1)
        mixed = stage.net(weight * x + (1 - weight) * x[partner])
    f = mixed.log_softmax(1)

    def half(w: Tensor, y: Tensor, plain: Tensor) -> Tensor:
        own = -(plain * f).sum(1) if kind == "soft" else nll(f, plain.argmax(1))
        return ((1 - w) * nll(f, y) + w * own).mean()

    other = half(w[partner], y[partner], plain[partner])
    wanted = weight * half(w, y, plain) + (1 - weight) * other
    away = (torch.log((1 / 3) / mixed.softmax(1).mean(0)) / 3).sum()
    terms = passed(stage, 3)[0]
    assert terms["bootstrap"] == pytest.approx(float(wanted), rel=1e-5)
    assert terms["prior"] == pytest.approx(0.5 * float(away + np.log(3)), rel=1e-5)


def test_the_mixture_is_refitted_only_when_it_will_be_used() -> None:
    stage = bootstrap.Bootstrap(net(), GIVEN, bootstrapping())
    untouched = stage.fitted.clone()
    passed(stage, 1)
    assert torch.equal(stage.fitted, untouched)
    passed(stage, 2)
    view = feed(2)
    list(view())  # the look comes after the pass
    m = BetaMixture.fit(losses(view.look(stage.net, augmented=True), LABELS))
    assert m.scale
    wanted = [m.alpha, m.beta, m.weight, (m.scale.lo, m.scale.hi)]
    assert torch.equal(stage.fitted, torch.tensor(wanted, dtype=torch.float64))
    with torch.no_grad():
        next(stage.net.parameters()).mul_(2)
    passed(stage, 3)
    assert not torch.equal(stage.fitted, torch.tensor(wanted, dtype=torch.float64))


def test_w_is_the_clipped_posterior_of_the_loss_in_evaluation_mode() -> None:
    body = nn.Sequential(nn.BatchNorm1d(4), net())
    stage = bootstrap.Bootstrap(body, GIVEN, bootstrapping())
    x, i = batch_of(3)
    assert torch.allclose(stage.noisy(x, i), torch.tensor(1e-4))  # no mixture yet: all are clean
    passed(stage, 2)
    before = stage.state_dict()["net.0.running_mean"].clone()
    w = stage.noisy(x, i)
    assert torch.equal(before, stage.state_dict()["net.0.running_mean"])
    assert stage.net.training
    with torch.no_grad():
        body.eval()
        each = functional.cross_entropy(body(x), LABELS[i], reduction="none")
    alpha, beta, weight, (lo, hi) = map(tuple, stage.fitted.tolist())
    m = BetaMixture(alpha, beta, weight, Scale(lo, hi))
    assert torch.allclose(w[:, 0].double(), m.noisy(each).clamp(1e-4, 1 - 1e-4), atol=1e-6)
    assert w.max() > 0.5 > w.min()


def test_soft_to_hard_first_mixes_by_w_then_doubts_then_hardens() -> None:
    settings = bootstrapping("kind=soft_to_hard", "delay=2", "cooling=3")
    asked: list[float] = []

    class Guided(bootstrap.SoftToHard):
        w = torch.rand(24, generator=rng("w"))

        def noisy(self, x: Tensor, i: Tensor) -> Tensor:
            return self.w[i][:, None]

        def guess(self, x: Tensor, temperature: float = 1.0) -> Tensor:
            asked.append(temperature)
            return super().guess(x, temperature)

    stage = Guided(net(), GIVEN, settings)
    assert [set(passed(stage, epoch)[0]) for epoch in (3, 4)] == [{"mixup"}, {"mixup"}]
    for epoch in (5, 6, 7, 8):
        assert set(passed(stage, epoch)[0]) == {"bootstrap", "prior"}
    assert asked == pytest.approx([1, 0.5005, 0.001, 0.001])
    x, _ = batch_of(8)
    assert torch.allclose(stage.guess(x, 0.001).max(1).values, torch.ones(24), atol=0.05)


def test_guided_pairs_favour_the_clean_image() -> None:
    x, t = torch.randn(6, 2, 3, 3, generator=rng("x")), one_hot(torch.arange(6) % 3, 3)
    w = torch.tensor([0.9, 0.1, 0.5, 0.0, 0.3, 1 - 1e-4])[:, None]
    mixed, targets = bootstrap.guided(x, t, w, 0.25, rng("pairs"))
    partner = torch.randperm(6, generator=rng("pairs"))
    for k, other in enumerate(partner.tolist()):
        own, theirs = 1 - float(w[k]), 1 - float(w[other])
        wanted = (own * x[k] + theirs * x[other]) / (own + theirs)
        assert torch.allclose(mixed[k], wanted, atol=1e-5)
        assert torch.allclose(targets[k], 0.25 * t[k] + 0.75 * t[other])


@pytest.mark.parametrize("setting", ["kind=soft", "kind=soft_to_hard", "lookup=true"])
def test_the_kinds_of_bootstrapping_learn(
    setting: str, tiny: DatasetSplits, tmp_path: Path
) -> None:
    wanted = tiny_config("bootstrap", 8, setting, "delay=1", "cooling=3")
    noisy = {"noise": "uniform:0.3", "out": tmp_path, "quiet": True}
    result = drpl.train(tiny, method="bootstrap", config=wanted, **noisy)  # type: ignore[arg-type]
    assert (result.accuracy["best"] or 0) > 60


# PENCIL


def labelled(*settings: str) -> pencil.Config:
    found = config("pencil", "learn_from=2", "learn_until=3", *settings)
    assert isinstance(found, pencil.Config)
    return found


def test_the_losses_of_pencil() -> None:
    labels = torch.tensor([0, 1])
    y = 10 * one_hot(labels, 3).double()
    assert float(pencil.classify(LOGITS, y)) == pytest.approx(0.663324, abs=5e-7)
    assert float(entropy(LOGITS.softmax(1)) / 3) == pytest.approx(0.249661, abs=5e-7)
    assert float(pencil.compatible(y, labels)) == pytest.approx(9.0796e-5, abs=5e-10)
    assert float(pencil.compatible(y, labels, True)) == pytest.approx(0.551502, abs=5e-7)


def test_phases_of_pencil() -> None:
    stage = pencil.Pencil(net(), LABELS, 3, labelled())
    assert torch.equal(stage.y, 10 * GIVEN)
    assert [set(passed(stage, epoch)[0]) for epoch in (1, 2, 3, 4)] == [
        {"given"},
        {"classify", "compatible", "entropy"},
        {"classify", "compatible", "entropy"},
        {"classify"},
    ]


def test_only_the_second_phase_moves_labels() -> None:
    stage = pencil.Pencil(net(), LABELS, 3, labelled())
    for epoch, moves in ((1, False), (2, True), (3, True), (4, False)):
        before = stage.y.clone()
        passed(stage, epoch)
        assert torch.equal(stage.y, before) != moves


def test_a_label_moves_by_its_gradient() -> None:
    """(1/BC) (y^d - f) from L_c and (a/B) (y^d - given) from L_o; L_e does not touch labels."""
    stage = pencil.Pencil(net(), LABELS, 3, labelled("label_rate=50.0", "compatible=0.3"))
    stage.y.copy_(torch.randn(24, 3, generator=rng("y")))
    y, d = stage.y.clone(), stage.y.softmax(1)
    with torch.no_grad():
        x, i = batch_of(2)
        f = torch.zeros(24, 3)
        f[i] = stage.net(x).softmax(1)
    passed(stage, 2, 8)  # three batches of eight
    slope = (d - f) / (8 * 3) + 0.3 * (d - GIVEN) / 8
    assert torch.allclose(stage.y, y - 50 * slope, atol=1e-5)


def test_labels_that_no_batch_visits_stay() -> None:
    stage = pencil.Pencil(net(), LABELS, 3, labelled())
    before = stage.y.clone()
    passed(stage, 2, 22)  # the rest of two is skipped
    assert int((stage.y != before).any(1).sum()) == 22


def test_two_processes_move_labels_as_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = pencil.Pencil(net(), LABELS, 3, labelled())
    passed(whole, 2, 12)
    monkeypatch.setattr(feeding, "world", lambda: 2)
    moved = torch.zeros(24, 3)
    for number in (0, 1):
        monkeypatch.setattr(feeding, "rank", lambda number=number: number)
        part = pencil.Pencil(net(), LABELS, 3, labelled())
        passed(part, 2, 12, processes=2)
        moved += part.y - 10 * GIVEN  # each has moved its own half
    assert torch.allclose(whole.y, 10 * GIVEN + moved, atol=1e-5)


# Negative learning


def negative(*settings: str) -> nlnl.Config:
    found = config("nlnl", "select_from=3", "positive_from=5", *settings)
    assert isinstance(found, nlnl.Config)
    return found


def trusting(trust: Tensor, *settings: str) -> nlnl.Negative:
    """A stage that remembers to have given this probability to each label."""
    stage = nlnl.Negative(net(), LABELS, 3, negative(*settings))
    rest = ((1 - trust) / 2)[:, None].expand(24, 3)
    for slot, sign in ((0, -1), (1, 1)):  # the mean counts, not the single epochs
        stage.recent[slot] = rest.scatter(1, LABELS[:, None], trust[:, None] + sign * 0.05)
        stage.visited[slot] = True
    return stage


def test_the_loss_of_negative_learning() -> None:
    each = nlnl.negative(LOGITS.softmax(1), torch.tensor([[1], [0]]))
    assert each.tolist() == pytest.approx([0.112617, 0.280678], abs=5e-7)
    two = nlnl.negative(LOGITS.softmax(1), torch.tensor([[1, 2], [0, 0]]))
    assert two.tolist() == pytest.approx([2 * 0.112617, 2 * 0.280678], abs=1e-6)
    sure = nlnl.negative(torch.tensor([[1.0, 0, 0]]), torch.tensor([[0]]))
    assert float(sure) == pytest.approx(-np.log(1e-5), rel=1e-4)


def test_complementary_labels_are_wrong_and_even() -> None:
    labels = torch.arange(20_000) % 5
    wrong = nlnl.complementary(labels, 5, 3, rng("wrong"))
    assert wrong.shape == (20_000, 3)
    assert not (wrong == labels[:, None]).any()
    steps = ((wrong - labels[:, None]) % 5).flatten().bincount(minlength=5)
    assert steps[0] == 0
    assert torch.allclose(steps[1:].double(), torch.tensor(15_000.0).double(), rtol=0.03)
    assert nlnl.complementary(torch.tensor([0, 1]), 2, 4, rng()).tolist() == [[1] * 4, [0] * 4]


@pytest.mark.parametrize(("epoch", "least"), [(1, 0.0), (2, 0.0), (3, 1 / 3), (4, 1 / 3)])
def test_negative_learning_from_those_that_are_not_doubted(epoch: int, least: float) -> None:
    trust = torch.linspace(0.06, 0.94, 24)
    stage = trusting(trust, "complements=2")
    x, i = batch_of(epoch)
    wrong = nlnl.complementary(LABELS[i], 3, 2, feed(epoch).rng)
    with torch.no_grad():
        each = nlnl.negative(stage.net(x).softmax(1), wrong)
    wanted = each[trust[i] >= least].mean()
    assert passed(stage, epoch) == [{"negative": pytest.approx(float(wanted), rel=1e-5)}]


def test_positive_learning_from_the_trusted() -> None:
    trust = torch.linspace(0.06, 0.94, 24)
    x, i = batch_of(5)
    for confident in (0.5, 0.8):
        stage = trusting(trust, f"confident={confident}")
        with torch.no_grad():
            each = functional.cross_entropy(stage.net(x), LABELS[i], reduction="none")
        wanted = each[trust[i] >= confident].mean()
        assert passed(stage, 5) == [{"positive": pytest.approx(float(wanted), rel=1e-5)}]
    assert passed(trusting(torch.full((24,), 0.3)), 5) == [{"positive": 0.0}]


def test_rare_classes_weigh_more() -> None:
    labels = torch.tensor([0] * 12 + [1] * 8 + [2] * 4)
    stage = nlnl.Negative(net(), labels, 3, negative())
    assert stage.weights.tolist() == [1, 1.5, 3]
    x, i = batch_of(1)
    wrong = nlnl.complementary(labels[i], 3, 1, feed(1).rng)
    with torch.no_grad():
        each = nlnl.negative(stage.net(x).softmax(1), wrong)
        positive = functional.cross_entropy(stage.net(x), labels[i], stage.weights)
    wanted = (stage.weights[labels[i]] * each).mean()
    assert passed(stage, 1)[0]["negative"] == pytest.approx(float(wanted), rel=1e-5)
    stage.recent[0], stage.visited[0] = one_hot(labels, 3), True
    assert passed(stage, 5)[0]["positive"] == pytest.approx(float(positive), rel=1e-5)


def test_recent_predictions_of_all_samples_are_remembered() -> None:
    stage = nlnl.Negative(net(), LABELS, 3, negative("window=2"))
    seen = []
    for epoch in (4, 5, 6):
        x, i = batch_of(epoch)
        p = torch.zeros(24, 3)
        with torch.no_grad():
            p[i] = stage.net(x).softmax(1)
        seen.append(p)
        passed(stage, epoch)
        with torch.no_grad():
            next(stage.net.parameters()).mul_(1.5)
    mean, known = stage.remembered()
    assert known.all()
    assert torch.allclose(mean, (seen[1] + seen[2]) / 2, atol=1e-6)


def test_negative_learning_judges_by_the_recent_predictions(
    tiny: DatasetSplits, tmp_path: Path
) -> None:
    wanted = tiny_config("nlnl", 6)
    arguments = {"noise": "uniform:0.3", "out": tmp_path, "track_every": 2, "quiet": True}
    result = drpl.train(tiny, method="nlnl", config=wanted, **arguments)  # type: ignore[arg-type]
    evidence = Evidence.read(tmp_path / "evidence" / "train.npz")
    assert evidence.losses.shape == evidence.margins.shape == (3, 72)
    with np.load(tmp_path / "samples.npz") as samples:
        given = torch.from_numpy(samples["given"])
        trust = evidence.probs.gather(1, given[:, None]).squeeze(1)
        assert np.allclose(samples["p_noisy"], 1 - trust.numpy())
        assert np.array_equal(samples["flagged"], trust.numpy() < 0.5)
        assert np.allclose(samples["loss"], -trust.log().numpy(), atol=1e-6)
        assert np.allclose(samples["loss"], evidence.now.numpy())
    record = json.loads((tmp_path / "splits" / "train.json").read_text())
    assert (record["threshold"], record["mixture"]) == (0.5, None)
    assert result.summary["flagged"] == record["unlabelled"]


# Co-teaching


def forgetting(*settings: str) -> coteaching.Config:
    found = config("coteaching", *settings)
    assert isinstance(found, coteaching.Config)
    return found


def test_forgetting_rises_to_its_rate() -> None:
    c = forgetting("forget_rate=0.4", "ramp=4")
    assert [c.kept(epoch) for epoch in (1, 2, 3, 4, 5, 99)] == pytest.approx(
        [0.9, 0.8, 0.7, 0.6, 0.6, 0.6]
    )


def test_the_easiest_are_those_of_least_loss() -> None:
    each = torch.tensor([3.0, 1, 2, 0, 5, 4, 7, 6, 9, 8])
    assert set(each[coteaching.easiest(each, 0.7)].tolist()) == set(range(7))
    assert coteaching.easiest(each, 0.1).tolist() == [3]
    assert coteaching.easiest(each, 0.0).tolist() == [3]
    assert len(coteaching.easiest(each, 1.0)) == 10


def test_each_network_learns_what_its_peer_finds_easy() -> None:
    stage = coteaching.CoTeaching(
        Ensemble(net(1), net(2)), LABELS, forgetting("forget_rate=0.5", "ramp=2")
    )
    x, i = batch_of(2)
    with torch.no_grad():
        a, b = (
            functional.cross_entropy(member(x), LABELS[i], reduction="none")
            for member in stage.net.members
        )
    mine, theirs = a.topk(12, largest=False).indices, b.topk(12, largest=False).indices
    assert set(mine.tolist()) != set(theirs.tolist())
    terms = passed(stage, 2)[0]
    assert terms["first"] == pytest.approx(float(a[theirs].mean()), rel=1e-5)
    assert terms["second"] == pytest.approx(float(b[mine].mean()), rel=1e-5)
    (step,) = stage.epoch(feed(2))
    gradients = torch.autograd.grad(step["first"], list(stage.parameters()), allow_unused=True)
    assert [gradient is None for gradient in gradients] == [False, False, True, True]


def test_both_networks_predict_after_loading(tiny: DatasetSplits, tmp_path: Path) -> None:
    wanted = tiny_config("coteaching", 2)
    result = drpl.train(tiny, method="coteaching", config=wanted, out=tmp_path, quiet=True)
    again = model.load(tmp_path)
    assert isinstance(again.net, Ensemble)
    confidence, guess = again.predict(tiny.train.images).max(1)
    assert confidence.tolist() == pytest.approx(result.samples["confidence"].tolist(), rel=1e-4)
    names = [tiny.train.classes[number] for number in guess.tolist()]
    assert names == result.samples["suggested_label"].tolist()


# All of them


def double(name: str) -> Tensor:
    return torch.randn(6, 4, generator=rng(name), dtype=torch.float64).requires_grad_()


def test_gradients_are_those_of_the_losses() -> None:
    labels = torch.arange(6) % 4
    logits, y, t = double("logits"), double("y"), double("t").detach().softmax(1)
    wrong = (labels[:, None] + 1) % 4
    assert gradcheck(lambda z: cross_entropy(z, t) + from_uniform(z.softmax(1)), logits)
    assert gradcheck(pencil.classify, (logits, y))
    assert gradcheck(lambda v: pencil.compatible(v, labels), y)
    assert gradcheck(lambda v: pencil.compatible(v, labels, True), y)
    assert gradcheck(lambda z: entropy(z.softmax(1)), logits)
    assert gradcheck(lambda z: nlnl.negative(z.softmax(1), wrong), logits)

    def taught(first: Tensor, second: Tensor) -> Tensor:
        a, b = (functional.cross_entropy(z, labels, reduction="none") for z in (first, second))
        return a[coteaching.easiest(b, 0.5)].mean() + b[coteaching.easiest(a, 0.5)].mean()

    assert gradcheck(taught, (logits, y))


@pytest.mark.parametrize("method", MINE)
def test_a_rehearsal_goes_through(method: str, tiny: DatasetSplits) -> None:
    wanted = tiny_config(method, 5)
    plan = dry_run(tiny, method=method, config=wanted, noise="uniform:0.3")
    assert [(stage.stage, stage.epochs, stage.steps) for stage in plan.stages] == [("train", 5, 5)]
    assert plan.seconds > 0


def test_presets_follow_the_papers() -> None:
    db = compose(bootstrap.Config, "bootstrap", ["cifar10"], [])
    assert (db.begin, db.kind, db.alpha, db.prior) == (106, "hard", 32, 1)
    assert [db.schedule.rate(e) for e in (99, 100, 249, 250)] == [0.1, 0.01, 0.01, 0.001]
    assert compose(bootstrap.Config, "bootstrap", ["webvision"], []).begin == 102
    assert compose(bootstrap.Config, "bootstrap", ["cifar10", "released"], []).lookup
    pen = compose(pencil.Config, "pencil", ["cifar10"], [])
    assert (pen.learn_from, pen.learn_until, pen.schedule.epochs) == (71, 200, 320)
    rates = [pen.schedule.rate(e) for e in (200, 201, 240, 241, 280, 281)]
    assert rates == [0.1, 0.2, 0.2, 0.02, 0.02, 0.002]
    assert (pen.label_rate, pen.compatible, pen.entropy) == (600, 0.1, 0.4)
    assert compose(pencil.Config, "pencil", ["cifar100"], []).label_rate == 10_000
    wv = compose(pencil.Config, "pencil", ["webvision"], [])
    assert (wv.learn_from, wv.learn_until, wv.schedule.epochs, wv.label_rate) == (41, 100, 200, 600)
    assert compose(pencil.Config, "pencil", ["cifar10", "released"], []).double_softmax
    nl = compose(nlnl.Config, "nlnl", ["cifar10"], [])
    assert (nl.select_from, nl.positive_from, nl.schedule.epochs) == (721, 1441, 2160)
    assert nl.complements == 1
    assert compose(nlnl.Config, "nlnl", ["cifar100"], []).complements == 110
    co = compose(coteaching.Config, "coteaching", ["cifar10"], [])
    assert (co.schedule.epochs, co.ramp, co.forget_rate) == (200, 10, 0.2)
