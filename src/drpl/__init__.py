"""Learning from images whose labels can't be trusted.

    import drpl

    result = drpl.train("photos/", out="runs/photos")   # a folder with a sub-folder per class
    result.suspicious(20)                               # the labels that are most probably wrong
    drpl.report([result], "report.html")

Names are imported when they are first used, so that the command line answers at once.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drpl.activation import look
    from drpl.cleaning.clean import clean
    from drpl.data import Reading, load
    from drpl.data.arrays import arrays
    from drpl.data.dataset import Data, Dataset, Truth
    from drpl.data.folder import folder
    from drpl.data.others import from_huggingface, from_torch
    from drpl.detection.evidence import Evidence
    from drpl.detection.mixture import BetaMixture
    from drpl.detection.split import Split
    from drpl.errors import DrplError
    from drpl.estimator import DRPLClassifier, find_label_issues
    from drpl.grid import compare
    from drpl.pipeline import detect, train
    from drpl.probing import probe
    from drpl.reporting.figures import figures
    from drpl.reporting.page import Section, report
    from drpl.result import Result
    from drpl.run import Outcome, Run
    from drpl.scoring import score
    from drpl.studying import study
    from drpl.training.schedule import Schedule
    from drpl.training.stage import Stage

_HOMES = {
    # data
    "load": "drpl.data",
    "Reading": "drpl.data",
    "folder": "drpl.data.folder",
    "arrays": "drpl.data.arrays",
    "from_torch": "drpl.data.others",
    "from_huggingface": "drpl.data.others",
    "Data": "drpl.data.dataset",
    "Dataset": "drpl.data.dataset",
    "Truth": "drpl.data.dataset",
    # the whole way
    "clean": "drpl.cleaning.clean",
    "train": "drpl.pipeline",
    "detect": "drpl.pipeline",
    "compare": "drpl.grid",
    "study": "drpl.studying",
    "Result": "drpl.result",
    "score": "drpl.scoring",
    "report": "drpl.reporting.page",
    "Section": "drpl.reporting.page",
    "figures": "drpl.reporting.figures",
    # what a network has learnt
    "look": "drpl.activation",
    "probe": "drpl.probing",
    # scikit-learn's way
    "DRPLClassifier": "drpl.estimator",
    "find_label_issues": "drpl.estimator",
    # for a method or a detector of one's own
    "Run": "drpl.run",
    "Outcome": "drpl.run",
    "Stage": "drpl.training.stage",
    "Schedule": "drpl.training.schedule",
    "BetaMixture": "drpl.detection.mixture",
    "Split": "drpl.detection.split",
    "Evidence": "drpl.detection.evidence",
    # what can go wrong
    "DrplError": "drpl.errors",
}

__version__ = version("drpl")
__all__ = [
    "BetaMixture",
    "DRPLClassifier",
    "Data",
    "Dataset",
    "DrplError",
    "Evidence",
    "Outcome",
    "Reading",
    "Result",
    "Run",
    "Schedule",
    "Section",
    "Split",
    "Stage",
    "Truth",
    "arrays",
    "clean",
    "compare",
    "detect",
    "figures",
    "find_label_issues",
    "folder",
    "from_huggingface",
    "from_torch",
    "load",
    "look",
    "probe",
    "report",
    "score",
    "study",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'drpl' has no attribute {name!r}")
