"""Every method can learn one batch by heart; if it cannot, something in it does not learn."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import drpl
from drpl.data.dataset import DatasetSplits, Truth
from drpl.data.images import TensorImages
from drpl.registry import METHODS
from tests.support.tiny import in_every_schedule, lr, tiny_config, tiny_network, tiny_pixels

SAMPLES = 24
# Its two Gaussians call some of any samples noisy, of a clean batch a whole class.
TRUSTING = {"dividemix": {"begin": 45, "p_threshold": 0.1, "lambda_u": 1.0}}


@pytest.mark.parametrize("method", METHODS)
def test_one_clean_batch_is_learnt_by_heart(
    method: str, tiny: DatasetSplits, tmp_path: Path
) -> None:
    """A step an epoch, always the same images."""
    pixels, labels = tiny_pixels(SAMPLES, "batch")
    truth = Truth(labels, torch.ones(SAMPLES, dtype=torch.bool))
    batch = replace(tiny.train, images=TensorImages(pixels), labels=labels, truth=truth)
    steady = in_every_schedule(method, {"batch_size": SAMPLES, **lr((1, 0.05))})
    result = drpl.train(
        replace(tiny, train=batch, test=None),
        method=method,
        config=tiny_config(method, 60, {"padding": 0.0}, steady, TRUSTING.get(method, {})),
        network=tiny_network,
        out=tmp_path,
        save_every=60,
        quiet=True,
    )
    samples = result.samples
    assert list(samples["suggested_label"]) == list(samples["given_label"])
