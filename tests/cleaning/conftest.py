"""One messy folder, cleaned once for all tests, also where several processes share these."""

from pathlib import Path

import pytest
from filelock import FileLock

from drpl.cleaning.claim import PLAN
from drpl.cleaning.clean import clean
from drpl.cleaning.plan import list_choices
from drpl.data.sources import ReadOptions, load
from tests.support.messy import Messy, messy_digits


@pytest.fixture(scope="session")
def messy(shared: Path) -> Messy:
    """30 % of the labels wrong, 10 % of the images of no class."""
    with FileLock(shared / "messy.lock"):
        return messy_digits(shared / "messy" / "my photos", 0.3, 0.1)


@pytest.fixture(scope="session")
def cleaned(messy: Messy, shared: Path) -> Path:
    """What `drpl clean` leaves of it with the quickest settings, on a machine of any speed."""
    out, source = messy.folder.parent / "cleaned data", str(messy.folder)
    read_options = ReadOptions(size=8, skip_broken=True)
    with FileLock(shared / "cleaned.lock"):  # who comes second finds it finished
        *_, quickest = list_choices(load(source, read_options))
        quickest.save(out / PLAN)
        clean(source, out, read_options=read_options, quiet=True)
    return out
