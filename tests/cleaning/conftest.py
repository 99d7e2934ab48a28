"""One messy folder, cleaned once for all tests."""

from pathlib import Path

import pytest

from drpl.cleaning.clean import clean
from drpl.data import Reading
from tests.cleaning.messy import Messy, messy_digits


@pytest.fixture(scope="session")
def messy(tmp_path_factory: pytest.TempPathFactory) -> Messy:
    """30 % of the labels wrong, 10 % of the images of no class."""
    return messy_digits(tmp_path_factory.mktemp("messy") / "my photos", 0.3, 0.1)


@pytest.fixture(scope="session")
def cleaned(messy: Messy) -> Path:
    """What `drpl clean` leaves of it in little time."""
    out = messy.folder.parent / "cleaned data"
    clean(str(messy.folder), out, budget="1m", reading=Reading(skip_broken=True), quiet=True)
    return out
