"""What each of two processes records, gathered and gone on with; started by torchrun."""

import sys

import torch
import torch.distributed as dist

from drpl import Recorder

SAMPLES, CLASSES, EPOCHS = 30, 4, 3


def draw_logits(epoch: int) -> torch.Tensor:
    return torch.randn(SAMPLES, CLASSES, generator=torch.Generator().manual_seed(epoch))


def draw_batches(epoch: int) -> list[torch.Tensor]:
    """Each epoch in an order of its own, so that samples change from process to process."""
    order = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(100 + epoch))
    return list(order.split(5))


def main(file: str) -> None:
    dist.init_process_group("gloo")
    recorder = Recorder(SAMPLES, CLASSES)
    for epoch in range(EPOCHS):
        if epoch == 2:  # as if both had been started again
            state = recorder.gather().state_dict()
            recorder = Recorder(SAMPLES, CLASSES)
            recorder.resume(state)
        for index in draw_batches(epoch)[dist.get_rank() :: 2]:
            recorder.record(index, draw_logits(epoch)[index])
    whole = recorder.gather().state_dict()
    if dist.get_rank() == 0:
        torch.save(whole, file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
