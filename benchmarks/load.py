"""Images a second of training steps on all cores: python benchmarks/load.py SECONDS [--plain]

`bench.py` starts it anew for each measurement, because OpenMP reads its variables only once. With
--plain torch is imported before drpl, which then leaves OpenMP as it is. Other values are tried by
GOMP_SPINCOUNT=1000 python benchmarks/load.py SECONDS
"""

import argparse
import time

BATCH, SIDE = 128, 16


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("seconds", type=float)
    words.add_argument("--plain", action="store_true")
    wanted = words.parse_args()
    if wanted.plain:
        import torch  # noqa: F401
    print(measure(wanted.seconds))


def measure(seconds: float) -> float:
    """Steps on one batch until the time is over."""
    import drpl  # noqa: F401, I001
    import torch
    from drpl.networks.build import build_network
    from drpl.training.losses import cross_entropy, one_hot

    torch.manual_seed(1)
    net = build_network("preact_resnet18", (3, SIDE, SIDE), classes=10, width=16)
    x = torch.randn(BATCH, 3, SIDE, SIDE).to(memory_format=torch.channels_last)
    t = one_hot(torch.randint(10, (BATCH,)), 10)
    sgd = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)

    def step() -> None:
        loss = cross_entropy(net(x), t)
        sgd.zero_grad()
        loss.backward()
        sgd.step()

    step()  # the first one allocates and chooses kernels
    began, steps = time.perf_counter(), 0
    while (passed := time.perf_counter() - began) < seconds:
        step()
        steps += 1
    return steps * BATCH / passed


if __name__ == "__main__":
    main()
