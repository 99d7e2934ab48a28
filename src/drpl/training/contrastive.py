"""Contrastive learning on unit vectors: who should be near whom, and a memory of recent ones."""

import torch
from torch import Tensor, nn

from drpl.distributed import all_gather_rows

TINY = 1e-8  # a row without anybody to be near has the loss 0


def contrastive_losses(
    rows: Tensor,
    columns: Tensor,
    wanted: Tensor,
    temperature: float,
    excluded: Tensor | None = None,
) -> Tensor:
    """How far each row is from being near those that it is wanted near. [B], or [K, B]

        loss_i = -sum_j S_ij log q_ij / sum_j S_ij,   q_i = softmax_j(rows_i . columns_j / T)

    `rows` [B, D] and `columns` [M, D] have length 1; `wanted` is S [B, M], weights of any size, or
    [K, B, M], several of them. With S_ij = [y_i = y_j] this is the supervised contrastive loss,
    with S the identity the unsupervised one. `excluded` [B, M] are pairs that do not count at all,
    such as a row and itself.
    """
    # bfloat16 has eight bits: too few for a similarity that is divided by 0.1.
    with torch.autocast(rows.device.type, enabled=False):
        logits = rows @ columns.T / temperature
        if excluded is None:
            log_q = logits.log_softmax(1)
        else:
            log_q = logits.masked_fill(excluded, -torch.inf).log_softmax(1)
            log_q, wanted = log_q.masked_fill(excluded, 0), wanted.masked_fill(excluded, 0)
        return -(wanted * log_q).sum(-1) / wanted.sum(-1).clamp(min=TINY)


def match_labels(rows: Tensor, columns: Tensor) -> Tensor:
    """S of the supervised loss: 1 where labels [B], [M] are the same, else 0. [B, M]"""
    return (rows[:, None] == columns[None, :]).float()


class EmbeddingMemory(nn.Module):
    """The latest embeddings of all processes with their labels, first in, first out.

    They are buffers, so a stage that keeps it as a submodule resumes with the same.
    """

    embeddings: Tensor  # [K, D] length 1, or zeros where nothing was put yet
    labels: Tensor  # [K]; -1 where nothing was put yet
    added: Tensor  # [] how many were ever put

    def __init__(self, size: int, dimensions: int) -> None:
        super().__init__()
        self.register_buffer("embeddings", torch.zeros(size, dimensions))
        self.register_buffer("labels", torch.full((size,), -1))
        self.register_buffer("added", torch.zeros((), dtype=torch.int64))

    @torch.no_grad()
    def add(self, embeddings: Tensor, labels: Tensor) -> None:
        """Put a batch [B, D], [B] in the place of the oldest; each process adds as many."""
        embeddings, labels = all_gather_rows(embeddings.detach()), all_gather_rows(labels)
        size = len(self.labels)
        latest = slice(max(0, len(labels) - size), None)  # no more than there is room for
        place = (self.added + torch.arange(len(labels), device=labels.device))[latest] % size
        self.embeddings[place] = embeddings[latest].to(self.embeddings.dtype)
        self.labels[place] = labels[latest]
        self.added += len(labels)

    def is_full(self) -> bool:
        """Whether every place was filled."""
        return int(self.added) >= len(self.labels)
