"""Several processes as one: each takes a part of every batch, sums make them agree.

Started by `torchrun`; without it every function here is the identity for a world of one.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor, nn

from drpl.errors import TrainingError


def rank() -> int:
    """Which of the processes this is; the first one writes the files."""
    return dist.get_rank() if dist.is_initialized() else 0


def world() -> int:
    """How many processes work together."""
    return dist.get_world_size() if dist.is_initialized() else 1


def find_device() -> torch.device:
    """Where tables must be to be summed: NCCL sums on GPUs only."""
    nccl = world() > 1 and dist.get_backend() == "nccl"
    return torch.device("cuda" if nccl else "cpu")


def barrier() -> None:
    """Wait until every process is here."""
    if world() > 1:
        dist.barrier()


def all_reduce_sum(table: Tensor) -> Tensor:
    """Sum a table over all processes, so that rows filled by any of them are whole in each."""
    if world() > 1:
        table = table.contiguous()
        dist.all_reduce(table)
    return table


def all_reduce_max(table: Tensor) -> Tensor:
    """The largest number that any process has, in every cell of a table."""
    if world() > 1:
        table = table.contiguous()
        dist.all_reduce(table, dist.ReduceOp.MAX)
    return table


def all_gather_rows(table: Tensor) -> Tensor:
    """The rows of all processes, one process after the other; each has as many."""
    if world() == 1:
        return table
    parts = [torch.empty_like(table, memory_format=torch.contiguous_format) for _ in range(world())]
    dist.all_gather(parts, table.contiguous())
    return torch.cat(parts)


def broadcast(table: Tensor) -> Tensor:
    """What the first process has, on every process."""
    if world() > 1:
        table = table.contiguous()
        dist.broadcast(table, src=0)
    return table


def first_succeeded(succeeded: bool) -> bool:
    """Whether what only the first process tries has succeeded there, on every process."""
    return bool(broadcast(torch.tensor([succeeded], device=find_device())).item())


def sum_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Sum gradients over processes; the loss was divided by their number before."""
    if world() == 1:
        return
    gradients = [p.grad for p in parameters if p.grad is not None]
    flat = torch.cat([g.reshape(-1) for g in gradients])
    dist.all_reduce(flat)
    for gradient, part in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
        gradient.copy_(part.view_as(gradient))


def agree_on_batchnorm(module: nn.Module) -> None:
    """Average the running statistics, which each process collects on its own part.

    Numbers of batches are the first process's: another may have had nothing to forward in one.
    """
    if world() == 1:
        return
    for name, statistic in module.named_buffers():
        if name.endswith(("running_mean", "running_var")):
            dist.all_reduce(statistic)
            statistic /= world()
        elif name.endswith("num_batches_tracked"):
            dist.broadcast(statistic, src=0)


def check_agreement(module: nn.Module) -> None:
    """Raise if the processes have drifted apart."""
    if world() == 1:
        return
    device = find_device()  # beside GPUs, a large history stays on disk
    sums = torch.stack([_sum(t).to(device) for t in module.state_dict().values()])
    if not torch.equal(sums, broadcast(sums.clone())):
        raise TrainingError(f"process {rank()} disagrees with process 0 about the weights")


def _sum(table: Tensor) -> Tensor:
    """The sum in double precision, of which there is never a whole copy."""
    parts = table.reshape(-1).split(2**24)
    return torch.stack([part.double().sum() for part in parts]).sum()


@contextmanager
def processes() -> Iterator[None]:
    """Join the group that `torchrun` announces in the environment, if any."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or dist.is_initialized():
        yield
        return
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    store, number, count = next(dist.rendezvous("env://"))  # type: ignore[attr-defined]
    # torchrun keeps its store over restarts: without a prefix the workers of a second attempt
    # would find, and call, the addresses of the first.
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    store = dist.PrefixStore(f"attempt {attempt}", store)  # type: ignore[attr-defined]
    backend = "nccl" if cuda else "gloo"
    dist.init_process_group(backend, store=store, rank=number, world_size=count)
    try:
        yield
    finally:
        dist.destroy_process_group()


def leave(code: int) -> None:
    """End a worker without the interpreter's own exit, which can abort after a group was used."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
