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
    from drpl.analysis.cam import look
    from drpl.analysis.probe import probe
    from drpl.analysis.scoring import score
    from drpl.cleaning.clean import clean
    from drpl.data.dataset import Dataset, DatasetSplits, Truth
    from drpl.data.readers.arrays import arrays
    from drpl.data.readers.folder import folder
    from drpl.data.readers.interop import from_huggingface, from_torch
    from drpl.data.sources import ReadOptions, load
    from drpl.detection.evidence import Evidence
    from drpl.detection.mixture import BetaMixture
    from drpl.detection.split import Split
    from drpl.errors import DrplError
    from drpl.experiments.grid import compare
    from drpl.experiments.study import study
    from drpl.report.figures import figures
    from drpl.report.page import Section, report
    from drpl.runs.estimator import DRPLClassifier, find_label_issues
    from drpl.runs.execute import detect, train
    from drpl.runs.folder import Result
    from drpl.runs.run import Outcome, Run
    from drpl.training.schedule import Schedule
    from drpl.training.stage import Stage

_HOMES = {
    # data
    "load": "drpl.data.sources",
    "ReadOptions": "drpl.data.sources",
    "folder": "drpl.data.readers.folder",
    "arrays": "drpl.data.readers.arrays",
    "from_torch": "drpl.data.readers.interop",
    "from_huggingface": "drpl.data.readers.interop",
    "DatasetSplits": "drpl.data.dataset",
    "Dataset": "drpl.data.dataset",
    "Truth": "drpl.data.dataset",
    # the whole way
    "clean": "drpl.cleaning.clean",
    "train": "drpl.runs.execute",
    "detect": "drpl.runs.execute",
    "compare": "drpl.experiments.grid",
    "study": "drpl.experiments.study",
    "Result": "drpl.runs.folder",
    "score": "drpl.analysis.scoring",
    "Section": "drpl.report.page",
    "figures": "drpl.report.figures",
    # what a network has learnt
    "look": "drpl.analysis.cam",
    "probe": "drpl.analysis.probe",
    # scikit-learn's way
    "DRPLClassifier": "drpl.runs.estimator",
    "find_label_issues": "drpl.runs.estimator",
    # for a method or a detector of one's own
    "Run": "drpl.runs.run",
    "Outcome": "drpl.runs.run",
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
    "Dataset",
    "DatasetSplits",
    "DrplError",
    "Evidence",
    "Outcome",
    "ReadOptions",
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
    if name == "report":  # a package that can be called, see its docstring
        return import_module("drpl.report")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'drpl' has no attribute {name!r}")
