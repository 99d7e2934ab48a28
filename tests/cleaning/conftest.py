"""One messy folder, cleaned once for all tests, also where several processes share these."""

from pathlib import Path

import pytest
from filelock import FileLock

from drpl.cleaning.clean import clean
from drpl.data.sources import ReadOptions
from tests.support.messy import Messy, messy_digits


@pytest.fixture(scope="session")
def messy(shared: Path) -> Messy:
    """30 % of the labels wrong, 10 % of the images of no class."""
    with FileLock(shared / "messy.lock"):
        return messy_digits(shared / "messy" / "my photos", 0.3, 0.1)


@pytest.fixture(scope="session")
def cleaned(messy: Messy, shared: Path) -> Path:
    """What `drpl clean` leaves of it in little time."""
    out = messy.folder.parent / "cleaned data"
    with FileLock(shared / "cleaned.lock"):  # who comes second finds it finished
        clean(
            str(messy.folder),
            out,
            budget="1m",
            read_options=ReadOptions(skip_broken=True),
            quiet=True,
        )
    return out
