"""Learning from images whose labels can't be trusted.

    import drpl

    result = drpl.train("photos/", out="runs/photos")   # a folder with a sub-folder per class
    result.suspicious(20)                               # the labels that are most probably wrong
    drpl.report([result], "report.html")

Names are imported when they are first used, so that the command line answers at once. What is not
listed here may change without notice.
"""

import warnings
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drpl.analysis.cam import look as look
    from drpl.analysis.probe import probe as probe
    from drpl.analysis.scoring import score as score
    from drpl.cleaning.clean import clean as clean
    from drpl.config.settings import Common as Common
    from drpl.data.dataset import Dataset as Dataset
    from drpl.data.dataset import DatasetSplits as DatasetSplits
    from drpl.data.dataset import Truth as Truth
    from drpl.data.readers.arrays import arrays as arrays
    from drpl.data.readers.folder import folder as folder
    from drpl.data.readers.interop import from_huggingface as from_huggingface
    from drpl.data.readers.interop import from_torch as from_torch
    from drpl.data.sources import ReadOptions as ReadOptions
    from drpl.data.sources import load as load
    from drpl.detection.evidence import Evidence as Evidence
    from drpl.detection.mixture import BetaMixture as BetaMixture
    from drpl.detection.split import Split as Split
    from drpl.errors import DrplError as DrplError
    from drpl.experiments.grid import compare as compare
    from drpl.experiments.study import study as study
    from drpl.report.figures import figures as figures
    from drpl.report.page import Section as Section
    from drpl.report.page import report as report
    from drpl.runs.dry_run import dry_run as dry_run
    from drpl.runs.estimator import DRPLClassifier as DRPLClassifier
    from drpl.runs.estimator import find_label_issues as find_label_issues
    from drpl.runs.execute import detect as detect
    from drpl.runs.execute import execute as execute
    from drpl.runs.execute import train as train
    from drpl.runs.experiment import Execution as Execution
    from drpl.runs.experiment import Experiment as Experiment
    from drpl.runs.folder import Result as Result
    from drpl.runs.run import Outcome as Outcome
    from drpl.runs.run import Run as Run
    from drpl.training.feed import Feed as Feed
    from drpl.training.losses import cross_entropy as cross_entropy
    from drpl.training.losses import mixup as mixup
    from drpl.training.losses import one_hot as one_hot
    from drpl.training.schedule import Schedule as Schedule
    from drpl.training.stage import Stage as Stage
    from drpl.training.stage import Terms as Terms

_HOMES = {
    "drpl.data.sources": ("load", "ReadOptions"),
    "drpl.data.readers.folder": ("folder",),
    "drpl.data.readers.arrays": ("arrays",),
    "drpl.data.readers.interop": ("from_torch", "from_huggingface"),
    "drpl.data.dataset": ("DatasetSplits", "Dataset", "Truth"),
    # the whole way
    "drpl.cleaning.clean": ("clean",),
    "drpl.runs.execute": ("train", "detect", "execute"),
    "drpl.runs.experiment": ("Experiment", "Execution"),
    "drpl.runs.dry_run": ("dry_run",),
    "drpl.runs.folder": ("Result",),
    "drpl.experiments.grid": ("compare",),
    "drpl.experiments.study": ("study",),
    "drpl.report.page": ("Section",),
    "drpl.report.figures": ("figures",),
    # what a network has learnt
    "drpl.analysis.scoring": ("score",),
    "drpl.analysis.cam": ("look",),
    "drpl.analysis.probe": ("probe",),
    # scikit-learn's way
    "drpl.runs.estimator": ("DRPLClassifier", "find_label_issues"),
    # for a method or a detector of one's own
    "drpl.config.settings": ("Common",),
    "drpl.runs.run": ("Run", "Outcome"),
    "drpl.training.stage": ("Stage", "Terms"),
    "drpl.training.feed": ("Feed",),
    "drpl.training.schedule": ("Schedule",),
    "drpl.training.losses": ("cross_entropy", "mixup", "one_hot"),
    "drpl.detection.mixture": ("BetaMixture",),
    "drpl.detection.split": ("Split",),
    "drpl.detection.evidence": ("Evidence",),
    # what can go wrong
    "drpl.errors": ("DrplError",),
}
_MODULES = {name: module for module, names in _HOMES.items() for name in names}
_OLD_NAMES = {"Data": "DatasetSplits", "Reading": "ReadOptions"}

__version__ = version("drpl")
__all__ = ["report", *_MODULES]


def __getattr__(name: str) -> Any:
    if name == "report":  # a package that can be called, see its docstring
        return import_module("drpl.report")
    if name in _OLD_NAMES:
        new = _OLD_NAMES[name]
        warnings.warn(f"drpl.{name} is now drpl.{new}", DeprecationWarning, stacklevel=2)
        name = new
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'drpl' has no attribute {name!r}")
