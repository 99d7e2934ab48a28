"""The numbers of a review, with reviewers whose mistakes are known."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from benchmarks.review import decide, make_table, measure_intervals, measure_orders
from scipy.special import expit, logit

from drpl.cleaning.folder import CleanedFolder
from drpl.cleaning.review import share
from drpl.cleaning.review.forecast import RERANK, Forecaster, learn_effects
from drpl.cleaning.review.strata import LOOK, Bools, cut_strata, draw_look


def with_look(cleaned: CleanedFolder, seed: int = 1) -> CleanedFolder:
    look = pd.DataFrame(index=pd.Index(draw_look(cleaned, seed), name="id"))
    return replace(cleaned, look=look)


def test_strata_part_the_list_from_the_rest() -> None:
    cleaned, _ = make_table(0.09, 0.0, samples=3000)
    listed = cleaned.samples.index.isin(cleaned.issues.index)
    p_noisy = cleaned.samples["p_noisy"].to_numpy()
    strata = cut_strata(p_noisy, listed)
    assert not set(strata[listed]) & set(strata[~listed])
    for part in (listed, ~listed):
        groups = [p_noisy[strata == h] for h in np.unique(strata[part])]
        assert all(a.max() <= b.min() for a, b in pairwise(groups))
    sizes = np.bincount(strata[~listed])
    assert sizes[0] > 2 * sizes[-1]  # what is sure needs few looks


def test_a_look_is_random_and_repeatable() -> None:
    cleaned, _ = make_table(0.09, 0.0, samples=3000)
    look = draw_look(cleaned, 1)
    assert len(set(look)) == LOOK
    assert look == draw_look(cleaned, 1) != draw_look(cleaned, 2)
    assert look != sorted(look, key=lambda number: cleaned.samples.at[number, "p_noisy"])


def test_a_look_at_few_samples() -> None:
    cleaned, wrong = make_table(0.3, 0.0, samples=12)
    cleaned = with_look(cleaned)
    assert set(cleaned.look.index) <= set(range(12))
    found = Forecaster(cleaned).learn(decide(cleaned, list(range(12)), wrong, 0.0, 1))
    assert found.rate is not None
    assert found.rate.value == pytest.approx(wrong.mean())  # everything is known
    assert found.order == []
    assert found.upcoming is None
    empty = replace(cleaned, issues=cleaned.issues[:0])
    assert Forecaster(with_look(empty)).learn({}).precision is None


def test_the_interval_is_the_shortest_that_holds_enough() -> None:
    """Rates are skewed: the upper tail is longer than the lower one."""
    draws = np.random.default_rng(1).gamma(1.0, size=2000)
    low, high = share._find_shortest(draws)
    assert ((low <= draws) & (draws <= high)).mean() == pytest.approx(share.INSIDE)
    even = np.quantile(draws, [0.025, 0.975])
    assert low < even[0]
    assert high - low < 0.9 * (even[1] - even[0])


@pytest.mark.parametrize("rate", [0.0, 0.09])
@pytest.mark.parametrize("erring", [0.0, 0.05])
def test_intervals_contain_the_rate(rate: float, erring: float) -> None:
    cleaned, wrong = make_table(rate, 1.0, samples=5000, seed=3)
    found = measure_intervals(cleaned, wrong, erring, repeats=40)
    assert found["contained"] >= 34  # 36 are wanted of 40; this many come with 0.95
    assert found["mean width"] <= (0.13 if erring == 0 else 0.18)


def test_networks_that_are_off_do_not_mislead() -> None:
    """The interval rests on the random sample more than on what the networks believe."""
    cleaned, wrong = make_table(0.09, 0.0, samples=5000, seed=4)
    for shift in (-2.0, 1.5):
        p_noisy = expit(logit(cleaned.samples["p_noisy"]) + shift)
        off = replace(cleaned, samples=cleaned.samples.assign(p_noisy=p_noisy))
        assert measure_intervals(off, wrong, 0.0, repeats=40)["contained"] >= 31


def test_decisions_narrow_the_interval_and_the_rest() -> None:
    cleaned, wrong = make_table(0.2, 0.0, samples=4000)
    cleaned = with_look(cleaned)
    forecaster = Forecaster(cleaned)
    before = forecaster.learn({})
    assert before.rate is None  # there is no clean.json
    look = [int(number) for number in cleaned.look.index]
    looked = forecaster.learn(decide(cleaned, look, wrong, 0.0, 1))
    assert looked.looked == LOOK
    assert looked.rate is not None
    assert looked.precision is not None
    listed = [int(number) for number in cleaned.issues.index]
    every = forecaster.learn(decide(cleaned, list(dict.fromkeys([*look, *listed])), wrong, 0.0, 1))
    assert every.rate is not None
    assert every.precision is not None
    assert every.left is not None
    assert every.rate.high - every.rate.low < looked.rate.high - looked.rate.low
    true = wrong[cleaned.samples.index.get_indexer(cleaned.issues.index)].mean()
    assert every.precision.value == pytest.approx(true)
    assert every.order == []
    hidden = wrong.sum() - every.found
    assert every.left.low <= hidden <= every.left.high


def test_probabilities_become_calibrated() -> None:
    cleaned, wrong = make_table(0.2, 0.0, samples=4000)
    p_noisy = expit(logit(cleaned.samples["p_noisy"]) + 2)  # the networks see too much noise
    cleaned = replace(cleaned, samples=cleaned.samples.assign(p_noisy=p_noisy))
    some = [int(number) for number in np.random.default_rng(1).choice(4000, 400, replace=False)]
    found = Forecaster(cleaned).learn(decide(cleaned, some, wrong, 0.0, 1))
    assert abs(p_noisy.mean() - wrong.mean()) > 0.1
    assert abs(found.p_noisy.mean() - wrong.mean()) < 0.03
    rows = cleaned.samples.index.get_indexer(pd.Index(found.order[:100]))
    assert found.upcoming == pytest.approx(float(found.p_noisy[rows].sum()))


def spoil(cleaned: CleanedFolder, wrong: Bools) -> Bools:
    """In one class the networks see wrong labels where there are none."""
    return np.asarray(wrong & (cleaned.samples["given_label"] != "class 0").to_numpy(), bool)


def test_the_order_learns_what_the_networks_do_not_know() -> None:
    cleaned, wrong = make_table(0.2, 0.0, samples=5000)
    wrong = spoil(cleaned, wrong)
    found = measure_orders(cleaned, wrong, 0.05)
    fixed, learnt = found["fixed order"], found["by decisions"]
    assert learnt[500] > 1.03 * fixed[500]
    assert learnt[1000] > fixed[1000]


def test_chance_changes_no_order() -> None:
    cleaned, wrong = make_table(0.15, 0.0, samples=3000)
    rows = np.arange(3000)[:200]
    odds = logit(cleaned.samples["p_noisy"].to_numpy())
    assert not learn_effects(cleaned.samples, odds, rows, wrong[rows].astype(float)).any()
    forecaster = Forecaster(cleaned)
    listed = [int(number) for number in cleaned.issues.index]
    found = forecaster.learn(decide(cleaned, listed[:RERANK], wrong, 0.0, 1))
    assert found.ranked == RERANK
    assert found.order == listed[RERANK:]


def test_the_order_changes_after_fifty_only() -> None:
    cleaned, wrong = make_table(0.2, 0.0, samples=5000)
    wrong = spoil(cleaned, wrong)
    forecaster = Forecaster(cleaned)
    listed = [int(number) for number in cleaned.issues.index]
    orders = []
    for count in (RERANK - 1, 3 * RERANK - 1, 3 * RERANK, 3 * RERANK - 1):
        found = forecaster.learn(decide(cleaned, listed[:count], wrong, 0.0, 1))
        assert found.ranked == count // RERANK * RERANK
        orders.append([number for number in found.order if number not in listed[: 3 * RERANK]])
    assert orders[0] == listed[3 * RERANK :]
    assert orders[0] != orders[1] == orders[3]
    assert orders[1] != orders[2]
