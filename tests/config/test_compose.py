from pathlib import Path

import numpy as np
import pytest

from drpl.config.compose import compose, default_preset, parse_settings
from drpl.errors import ConfigError
from drpl.methods import cross_entropy
from drpl.methods.drpl import Config


def test_later_layers_win(tmp_path: Path) -> None:
    own = tmp_path / "mine.toml"
    own.write_text("width = 8\n[relabel]\nbegin = 3\n")
    config = compose(
        Config, "drpl", ["digits", str(own)], {"relabel": {"begin": 4}, "ssl": {"warmup": "none"}}
    )
    assert (config.width, config.relabel.begin, config.ssl.warmup) == (8, 4, "none")
    assert config.relabel.prior == 0.8  # what no layer touches stays


def test_defaults_by_data_set() -> None:
    assert default_preset("digits") == "digits"
    assert default_preset("my photos") == "small"


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        (
            "relabel.widow=3",
            "settings: unknown key 'relabel.widow'; did you mean 'window'?",
        ),
        ("relabl.window=3", "did you mean 'relabel'?"),
        ("relabel.begin=soon", "relabel.begin must be a valid integer, got 'soon'"),
        ("relabel.begin=-1", "relabel.begin must be greater than 0, got -1"),
        ("width=1.5", "width must be a valid integer"),
        ("flip=1", "flip must be a valid boolean"),
        ("ssl.warmup=sometimes", "must be 'load' or 'none'"),
        ("relabel_schedule.rates=[[2, 0.1]]", "must begin with epoch 1"),
        ("relabel", "write key=value"),
        ("relabel=3", "relabel "),
    ],
)
def test_wrong_overrides(override: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as error:
        compose(Config, "drpl", ["digits"], parse_settings([override]))
    assert sentence in str(error.value)


def test_a_preset_file_with_a_wrong_type(tmp_path: Path) -> None:
    own = tmp_path / "mine.toml"
    own.write_text('[relabel]\nbegin = "ten"\n')
    with pytest.raises(ConfigError) as error:
        compose(Config, "drpl", [str(own)])
    assert str(error.value) == f"{own}: relabel.begin must be a valid integer, got 'ten'"


def test_presets_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'cifar10'"):
        compose(Config, "drpl", ["cifar"])
    with pytest.raises(ConfigError, match="there is no preset file"):
        compose(Config, "drpl", [str(tmp_path / "no.toml")])
    broken = tmp_path / "broken.toml"
    broken.write_text("= 3")
    with pytest.raises(ConfigError, match="cannot read preset file"):
        compose(Config, "drpl", [str(broken)])


def test_a_missing_setting_is_named() -> None:
    with pytest.raises(ConfigError, match="setting 'schedule' is missing"):
        compose(cross_entropy.Config, "no such method", [])


def test_settings_are_mappings() -> None:
    with pytest.raises(ConfigError, match="settings must be a mapping"):
        compose(Config, "drpl", ["digits"], ["width=3"])  # type: ignore[arg-type]
    assert compose(Config, "drpl", ["digits"], {"width": np.int64(3)}).width == 3


def test_the_old_name_of_learning_rates_is_read(tmp_path: Path) -> None:
    own = tmp_path / "mine.toml"
    own.write_text("[relabel_schedule]\nrates = [[1, 0.25]]\n")
    config = compose(Config, "drpl", ["digits", str(own)])
    assert config.relabel_schedule.lr == ((1, 0.25),)
    later = compose(Config, "drpl", [str(own), "digits"], {"relabel_schedule": {"lr": [[1, 0.5]]}})
    assert later.relabel_schedule.lr == ((1, 0.5),)
