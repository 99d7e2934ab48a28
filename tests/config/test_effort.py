"""The overlay `fast`, and the effort that shortens a preset in its own proportions."""

from typing import Any

import pytest

from drpl.config.compose import PRESETS, compose
from drpl.config.from_data import find_schedules
from drpl.errors import ConfigError
from drpl.methods import cross_entropy, dividemix, drpl, pencil
from drpl.registry import METHODS

TABLES = [name for name in PRESETS if name not in ("fast", "released", "literal")]


def load(method: str) -> Any:
    return METHODS[method].load().Config


@pytest.mark.parametrize("method", METHODS)
def test_the_overlay_fast_lies_over_every_preset_of_every_method(method: str) -> None:
    for preset in TABLES:
        whole = compose(load(method), method, [preset])
        fast = compose(load(method), method, [preset, "fast"])
        for name in find_schedules(load(method)):
            before, after = getattr(whole, name), getattr(fast, name)
            assert after.cycle
            assert after.nesterov
            assert after.weight_decay in (5e-4, before.weight_decay)  # its own wins
            assert 2 <= after.epochs <= max(2, 0.7 * before.epochs)
            assert not before.cycle
        total = {
            one: sum(getattr(config, name).epochs for name in find_schedules(load(method)))
            for one, config in (("whole", whole), ("fast", fast))
        }
        assert total["fast"] <= 0.4 * total["whole"] + 4, preset


def test_what_is_in_epochs_follows_its_schedule() -> None:
    fast = compose(pencil.Config, "pencil", ["mini", "fast"])
    assert (fast.learn_from, fast.learn_until, fast.schedule.epochs) == (7, 20, 32)
    ours = compose(drpl.Config, "drpl", ["cifar10", "fast"])
    assert (ours.relabel.begin, ours.relabel.window, ours.relabel_schedule.epochs) == (47, 7, 87)
    whole = compose(dividemix.Config, "dividemix", ["mini"])
    half = compose(dividemix.Config, "dividemix", ["mini"], {"schedule": {"effort": 0.5}})
    assert isinstance(half.ramp, float)
    assert half.ramp == round(whole.ramp / 2)  # a default that no preset has


def test_numbers_of_ones_own_stay() -> None:
    own = {"schedule": {"epochs": 41, "effort": 0.5}}
    assert compose(cross_entropy.Config, "cross_entropy", ["small"], own).schedule.epochs == 41
    own = {"relabel": {"begin": 19}}
    fast = compose(drpl.Config, "drpl", ["small", "fast"], own)
    assert (fast.relabel.begin, fast.relabel.window, fast.relabel_schedule.epochs) == (19, 7, 30)


def test_rates_begin_earlier_in_a_shorter_schedule() -> None:
    half = {"schedule": {"effort": 0.5}}
    schedule = compose(cross_entropy.Config, "cross_entropy", ["cifar10"], half).schedule
    assert (schedule.epochs, schedule.lr) == (60, ((1, 0.1), (21, 0.01), (41, 0.001)))


@pytest.mark.parametrize("effort", ["half", 0, -1, True])
def test_an_effort_that_is_none_is_refused(effort: Any) -> None:
    with pytest.raises(ConfigError, match=r"schedule\.effort"):
        compose(cross_entropy.Config, "cross_entropy", ["small"], {"schedule": {"effort": effort}})


def test_settings_of_later_versions_are_written_only_where_they_are_used() -> None:
    plain = compose(drpl.Config, "drpl", ["small"]).describe()
    assert not {"mean_of_epochs", "mirrored", "warm_start"} & {*plain}
    assert {*plain["relabel_schedule"]} == {
        "epochs",
        "lr",
        "batch_size",
        "momentum",
        "weight_decay",
    }
    fast = compose(drpl.Config, "drpl", ["small", "fast"]).describe()
    assert fast["warm_start"]
    assert (fast["relabel_schedule"]["cycle"], fast["relabel_schedule"]["effort"]) == (True, 0.67)
    assert drpl.Config.model_validate(fast) == compose(drpl.Config, "drpl", ["small", "fast"])
