"""What several networks share."""

import subprocess
import sys

import pytest
import torch

from drpl.networks.layers import Pointwise


def test_a_pointwise_convolution_equals_one_that_strides() -> None:
    x = torch.randn(2, 3, 7, 8)
    ours = Pointwise(3, 5, 2)
    plain = torch.nn.Conv2d(3, 5, 1, 2, bias=False)
    plain.load_state_dict(ours.state_dict())
    torch.testing.assert_close(ours(x), plain(x))


@pytest.mark.parametrize("name", ["preact_resnet18", "resnet18"])
def test_narrow_networks_on_large_images_do_not_crash(name: str) -> None:
    """In a process of its own: torch's convolution that strides tears the process down."""
    code = (
        "import torch; from drpl.networks.build import build_network\n"
        f"net = build_network({name!r}, (3, 64, 64), 4, 8)\n"
        "for _ in range(2): net(torch.randn(16, 3, 64, 64).contiguous("
        "memory_format=torch.channels_last)).sum().backward()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
