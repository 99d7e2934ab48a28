import pytest
import torch

from drpl.randomness import derive, rng
from drpl.training.losses import (
    cross_entropy,
    entropy,
    from_prior,
    from_uniform,
    mixup,
    one_hot,
    sharpen,
)

LOGITS = torch.tensor([[2.0, 0.0, 0.0], [0.0, 1.0, -1.0]])
TARGETS = torch.tensor([[0.7, 0.2, 0.1], [0.0, 1.0, 0.0]])


def test_regularised_soft_label_loss() -> None:
    p = LOGITS.softmax(1)
    classify, prior, decided = cross_entropy(LOGITS, TARGETS), from_uniform(p), entropy(p)
    assert float(classify) == pytest.approx(0.623575, abs=1e-6)
    assert float(prior) == pytest.approx(1.311406, abs=1e-6)
    assert float(prior) - float(torch.tensor(3.0).log()) == pytest.approx(0.212794, abs=1e-6)
    assert float(decided) == pytest.approx(0.748984, abs=1e-6)
    assert float(classify + 0.8 * prior + 0.4 * decided) == pytest.approx(1.972294, abs=1e-6)


def test_the_prior_is_where_the_regulariser_is_lowest() -> None:
    p = torch.rand(8, 3, generator=rng("p")).softmax(1)
    torch.testing.assert_close(from_prior(p, torch.full((3,), 1 / 3)), from_uniform(p))
    torch.testing.assert_close(from_prior(p, None), from_uniform(p))
    prior = torch.tensor([0.7, 0.2, 0.1])
    least = from_prior(prior.expand(4, 3), prior)
    assert float(least) == pytest.approx(0.8018, abs=1e-4)  # the entropy of the prior
    for other in ([0.6, 0.3, 0.1], [0.7, 0.1, 0.2], [1 / 3, 1 / 3, 1 / 3]):
        assert from_prior(torch.tensor(other).expand(4, 3), prior) > least


def test_gradients_against_finite_differences() -> None:
    logits = LOGITS.double().requires_grad_()

    def loss(z: torch.Tensor) -> torch.Tensor:
        p = z.softmax(1)
        return cross_entropy(z, TARGETS.double()) + 0.8 * from_uniform(p) + 0.4 * entropy(p)

    assert torch.autograd.gradcheck(loss, logits)


def test_entropy_of_a_certain_prediction_has_a_gradient() -> None:
    logits = torch.tensor([[200.0, 0.0, -200.0]], requires_grad=True)
    entropy(logits.softmax(1)).backward()
    assert logits.grad is not None
    assert bool(torch.isfinite(logits.grad).all())


def test_mixup_mixes_images_and_targets_alike() -> None:
    labels = torch.arange(8) % 4
    x = one_hot(labels, 4) * 10
    mixed, targets, _ = mixup(x, one_hot(labels, 4), 1.0, rng(1, "mix"))
    assert torch.allclose(mixed / 10, targets)
    assert torch.allclose(targets.sum(1), torch.ones(8))
    again, _, _ = mixup(x, one_hot(labels, 4), 1.0, rng(1, "mix"))
    assert torch.equal(mixed, again)


def test_mixup_weights_follow_beta() -> None:
    x = torch.stack([torch.zeros(2), torch.ones(2)])
    draws = rng("weights")
    flat = [float(mixup(x, x, 1.0, draws)[0].max()) for _ in range(400)]
    peaked = [float(mixup(x, x, 32.0, draws)[0].max()) for _ in range(400)]
    different = [value for value in peaked if value < 1]  # not paired with itself
    assert min(flat) > 0
    assert max(different) < 0.75  # Beta(32, 32) stays near one half


def test_keys_decide_draws() -> None:
    assert derive(1, "a", 2) == 7966048045017696035  # in every process, for ever
    assert len({derive(1, "a"), derive("1", "a"), derive(1, "a", 0), derive(2, "a")}) == 4
    first, second = torch.rand(3, generator=rng(1)), torch.rand(3, generator=rng(1))
    assert torch.equal(first, second)


def test_sharpening() -> None:
    q = torch.tensor([[0.7, 0.2, 0.1], [0.5, 0.5, 0.0]])
    wanted = torch.tensor([[0.49, 0.04, 0.01], [0.25, 0.25, 0.0]])
    assert torch.allclose(sharpen(q, 0.5), wanted / wanted.sum(1, keepdim=True))
    assert torch.allclose(sharpen(q, 1.0), q)
