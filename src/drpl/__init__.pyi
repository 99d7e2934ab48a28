# What users import, for type checkers; at run time __init__.py finds the names by this list.

from drpl.analysis.cam import look as look
from drpl.analysis.probe import probe as probe
from drpl.analysis.scoring import score as score
from drpl.cleaning.clean import clean as clean
from drpl.cleaning.exchange.exchange import export_labels as export_labels
from drpl.cleaning.exchange.exchange import import_labels as import_labels
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
from drpl.encoders.encode import encode as encode
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
from drpl.runs.recorder import Recorder as Recorder
from drpl.runs.run import Outcome as Outcome
from drpl.runs.run import Run as Run
from drpl.training.feed import Feed as Feed
from drpl.training.losses import cross_entropy as cross_entropy
from drpl.training.losses import mixup as mixup
from drpl.training.losses import one_hot as one_hot
from drpl.training.schedule import Schedule as Schedule
from drpl.training.stage import Stage as Stage
from drpl.training.stage import Terms as Terms

__version__: str
__all__: list[str]
