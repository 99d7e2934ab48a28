import pandas as pd
import torch

from drpl.cleaning.lookalikes import ALONE, group_lookalikes


def test_near_suspects_of_one_kind_are_a_group() -> None:
    draws = torch.Generator().manual_seed(1)
    features, labels = torch.randn(60, 8, generator=draws), torch.arange(60) % 2
    features[1:6] = features[0] + 0.01 * torch.randn(5, 8, generator=draws)
    issues = pd.DataFrame(
        {
            "id": [0, 1, 2, 3, 4, 20],
            "given_label": "cat",
            "suggested_label": ["dog", "dog", "dog", "dog", "owl", "dog"],
            "verdict": ["mislabelled"] * 3 + ["outside"] + ["mislabelled"] * 2,
        }
    )
    groups = group_lookalikes(issues, features, labels).tolist()
    assert groups[0] == groups[1] == groups[2] != ALONE
    assert groups[3:] == [ALONE] * 3  # another verdict, another suggestion, another look
