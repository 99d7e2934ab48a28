"""Planted errors: which share of wrong labels the list would show, measured on the user's own data.

The labels of some samples are flipped, half of them as labels are mistaken here, by the noise
model's confusions, half to any other class. A label that is already wrong cannot be made wrong: as
often as it is probably so, the suggested class is flipped instead of the given one. The
leave-one-out classifier is trained on the flipped labels once more, and what the noise model of the
real ones then says decides whether each would have been listed. Where samples are few, this is done
several times. Nothing of it reaches the lists themselves. Real mistakes are harder to find than
planted ones where people err on the images that a classifier finds hard, too.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from drpl.cleaning.folder import VERDICTS
from drpl.cleaning.judge import LISTED, Judgement
from drpl.detection.left_out import Load, predict_left_out
from drpl.randomness import rng

SHARE = 0.02  # of the samples, for each of the two ways to flip
FEWEST = 20  # flips of either way that tell anything
WANTED, ROUNDS = 300, 8  # flips of either way, and times to flip, at most
PAIRS, ENOUGH = 5, 5  # pairs of classes that are named, and flips that make a pair worth it


@dataclass(frozen=True)
class Planted:
    """Labels that were flipped, and which of them would have been listed."""

    true: Tensor  # [P]
    given: Tensor  # [P]
    alike: Tensor  # [P] bool: flipped as labels are mistaken here, not uniformly
    found: Tensor  # [P] bool
    verdict: Tensor  # [P] which of VERDICTS each would have had

    def summarize(self, classes: tuple[str, ...]) -> dict[str, Any]:
        """Recall in both ways, by verdict, and of the pairs of classes flipped most often."""
        pairs = torch.stack([self.true, self.given], 1)
        kinds, counts = pairs.unique(dim=0, return_counts=True)
        rows = []
        for row in counts.argsort(descending=True, stable=True)[:PAIRS].tolist():
            mine = (pairs == kinds[row]).all(1)
            if int(mine.sum()) >= ENOUGH:
                true, given = (classes[int(label)] for label in kinds[row])
                rows.append({"true": true, "given": given, "recall": _share(self.found[mine])})
        verdicts = {name: self.verdict == k for k, name in enumerate(VERDICTS)}
        return {
            "planted": len(self.found),
            "recall": _share(self.found[self.alike]),
            "recall of uniform flips": _share(self.found[~self.alike]),
            "verdicts": {
                name: _share(self.found[mine])
                for name, mine in verdicts.items()
                if int(mine.sum()) >= ENOUGH
            },
            "pairs": rows,
        }


def plant(run: Judgement, load: Load, seed: int, most: int = ROUNDS) -> Planted | None:
    """Flip some labels, train once more, and see which of them would be listed; `most` times.

    None where too few can be flipped to say anything.
    """
    count = round(SHARE * len(run.given))
    rounds = min(ROUNDS, most, -(-WANTED // max(1, count)))
    if count * rounds < FEWEST:
        return None
    draws = rng(seed, "planted")
    parts = [_plant_once(run, load, count, draws) for _ in range(rounds)]
    return Planted(*(torch.cat(values) for values in zip(*parts, strict=True)))


def _plant_once(
    run: Judgement, load: Load, count: int, draws: torch.Generator
) -> tuple[Tensor, ...]:
    """What `Planted` holds, of about that many flips in each of the two ways."""
    classes = run.scores.shape[1]
    rows = torch.randperm(len(run.given), generator=draws)[: 2 * count]
    alike = torch.arange(len(rows)) < count
    wrong = torch.rand(len(rows), generator=draws) < run.p_noisy[rows]
    true = torch.where(wrong, run.best[1][rows], run.given[rows])
    even = (1 - torch.eye(classes, dtype=torch.float64))[true]
    weights = torch.where(alike[:, None], run.noise.guess_mistakes()[true], even)
    flipped = torch.multinomial(weights, 1, generator=draws).squeeze(1)
    new = flipped != run.given[rows]
    rows, alike, true, flipped = (values[new] for values in (rows, alike, true, flipped))
    labels = run.given.clone()
    labels[rows] = flipped
    scores = predict_left_out(load, labels, classes).scores
    odds = run.noise.of(scores, labels).posterior.clamp(1e-9, 1 - 1e-9).logit()
    probable = (odds + run.find_shift(run.rate.value)).sigmoid()
    verdicts = torch.tensor([VERDICTS.index(name) for name in run.give_verdicts(labels)])
    return true, flipped, alike, probable[rows] > LISTED, verdicts[rows]


def _share(hits: Tensor) -> float:
    return float(hits.double().mean())
