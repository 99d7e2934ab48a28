"""The scikit-learn face: a classifier for labels that can't be trusted, and a list of wrong ones.

from drpl import DRPLClassifier, find_label_issues

find_label_issues(embeddings, labels)  # indices of wrong labels, worst first
find_label_issues(pred_probs=probs, labels=labels)  # the same by predictions that there are
DRPLClassifier().fit(embeddings, labels).predict(new)
"""

import tempfile
from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.random import RandomState
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_array, check_random_state, check_X_y
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from drpl.data.images import TensorImages
from drpl.data.readers.arrays import arrays, to_pixels
from drpl.encoders.encode import encode
from drpl.errors import ConfigError
from drpl.files import read_arrays
from drpl.runs import model
from drpl.runs.execute import execute
from drpl.runs.experiment import Execution, Experiment, Goal
from drpl.runs.issues import RankBy, rank_by_probabilities

Array = NDArray[Any]


class DRPLClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # sklearn has no types
    """A robust classifier for vectors or images; after `fit` it knows which labels are wrong.

    `X` is [N, D] for vectors and [N, H, W], [N, H, W, C] or [N, C, H, W] for images (uint8, or
    floats in 0..1); `y` holds labels of any kind. `method`, `preset` and `device` are those of
    `drpl.train`; `settings` is a mapping such as `{"width": 32}`; `features`, a name from
    `drpl list encoders`, trains on what a pretrained network makes of images; an integer
    `random_state` is the seed. Nothing but features is left on disk. After `fit` there are

    classes_        the labels, in the order of the columns of `predict_proba`
    label_noise_    for each sample the probability that its label is wrong
    suspicious_     indices of the samples whose label is called wrong, worst first
    suggested_      for each sample the label that the network gives it
    model_          the network with its preprocessing
    """

    def __init__(
        self,
        method: str = "drpl",
        *,
        preset: str | list[str] | None = None,
        settings: Mapping[str, Any] | None = None,
        features: str | None = None,
        random_state: int | RandomState | None = None,
        device: str | None = None,
        verbose: bool = False,
    ) -> None:
        self.method, self.preset, self.settings, self.features = method, preset, settings, features
        self.random_state, self.device, self.verbose = random_state, device, verbose

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:  # noqa: N803  scikit-learn's name
        """Train on labels of which some may be wrong."""
        return self._fit(X, y, "train")

    def _fit(self, samples: ArrayLike, y: ArrayLike, goal: Goal) -> Self:
        """Train as far as the goal says, in a folder that is then removed."""
        if _are_images(samples):
            x, labels = check_X_y(samples, y, allow_nd=True, ensure_min_samples=2, estimator=self)
        else:
            x, labels = validate_data(self, samples, y, dtype=np.float32, ensure_min_samples=2)
        check_classification_targets(labels)
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"found one class only ({self.classes_[0]!r}); at least two are needed"
            )
        data = arrays(x, numbers, classes=[str(name) for name in self.classes_])
        data = encode(data, self.features) if self.features else data
        with tempfile.TemporaryDirectory(prefix="drpl-") as folder:
            experiment = Experiment.build(
                data,
                method=self.method,
                preset=self.preset,
                settings=self.settings,
                seed=_choose_seed(self.random_state),
                goal=goal,
            )
            place, quiet = Path(folder), not self.verbose
            execute(experiment, Execution(place, self.device, save_every=inf, quiet=quiet))
            self.model_ = model.load(place)
            judged = read_arrays(place / "samples.npz")
        return self._keep(judged)

    def _keep(self, judged: Mapping[str, Array]) -> Self:
        """What is known of each sample, from the table of a run."""
        self._worst_first = np.lexsort((-judged["loss"], -judged["p_noisy"]))
        self.label_noise_ = judged["p_noisy"]
        self.suspicious_ = self._worst_first[judged["flagged"][self._worst_first]]
        self.suggested_ = self.classes_[judged["suggested"]]
        return self

    def predict_proba(self, X: ArrayLike) -> Array:  # noqa: N803
        """The probability of each of `classes_`. [N, C]"""
        check_is_fitted(self)
        if _are_images(X):
            x = check_array(X, allow_nd=True, estimator=self)
        else:
            x = validate_data(self, X, reset=False, dtype=np.float32)
        pixels = to_pixels(x)
        shape = tuple(pixels.shape[1:])
        fits = len(shape) == 3 if self.model_.encoding else shape == self.model_.shape
        if not fits:
            raise ValueError(
                f"X has samples of shape {shape}, but {type(self).__name__} was "
                f"fitted to {self.model_.input_shape} (features, or channels, height, width)"
            )
        probs: Array = self.model_.predict(TensorImages(pixels)).numpy()
        return probs

    def predict(self, X: ArrayLike) -> Array:  # noqa: N803
        """The most probable of `classes_` for each sample."""
        probs = self.predict_proba(X)  # first: it says so if there was no fit
        return np.asarray(self.classes_[probs.argmax(1)])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


def find_label_issues(
    X: ArrayLike | None = None,  # noqa: N803  as in DRPLClassifier
    y: ArrayLike | None = None,
    *,
    pred_probs: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    rank_by: RankBy = "label_noise",
    return_scores: bool = False,
    method: str = "drpl",
    preset: str | list[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    features: str | None = None,
    random_state: int | RandomState | None = 1,
    device: str | None = None,
    verbose: bool = False,
) -> Any:
    """The indices of the samples whose label is probably wrong, worst first.

    With `return_scores` a table of all samples instead, in the same order: the index, the given and
    the suggested label, the probability that the given one is wrong, and whether it is called so.

    Either networks are trained on samples `X` with labels `y`; the other arguments are then those
    of `DRPLClassifier`, and the final model is not trained. Or `labels` are judged by `pred_probs`
    [N, C], the predictions of a classifier for samples that it was not trained on, as cross-
    validation gives them: nothing is trained, and an array mapped from a file
    (`numpy.load(path, mmap_mode="r")`) is read in parts. Labels are the numbers of columns, or
    names in whose alphabetical order the columns are. The table then also has the self-confidence
    and the normalised margin of each label, and `rank_by` may name one of these for the order.
    """
    given = tuple(one is not None for one in (X, y, pred_probs, labels))
    if given not in ((True, True, False, False), (False, False, True, True)):
        raise ConfigError("give samples X with labels y, or pred_probs with labels")
    if pred_probs is not None and labels is not None:
        table = rank_by_probabilities(pred_probs, labels, rank_by)
        return table if return_scores else table.index[table.flagged].to_numpy()
    if rank_by != "label_noise":
        raise ConfigError(
            f"rank_by={rank_by!r} is for pred_probs; trained networks order by label_noise"
        )
    judge = DRPLClassifier(method, preset=preset, settings=settings, random_state=random_state)
    judge.set_params(features=features, device=device, verbose=verbose)._fit(X, y, "detect")
    if not return_scores:
        return judge.suspicious_
    table = pd.DataFrame({"given": np.ravel(np.asarray(y)), "suggested": judge.suggested_})
    table["label_noise"] = judge.label_noise_
    table["flagged"] = table.index.isin(judge.suspicious_)
    return table.iloc[judge._worst_first]


def _are_images(samples: Any) -> bool:
    """Whether there are more axes than those of vectors [N, D]."""
    return (samples if hasattr(samples, "ndim") else np.asarray(samples)).ndim > 2


def _choose_seed(random_state: int | RandomState | None) -> int:
    """An integer is the seed itself; else one is drawn, as is scikit-learn's custom."""
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))
