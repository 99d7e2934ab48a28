"""The scikit-learn face: its contract, its labels of any kind, and what it finds."""

import pickle
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from drpl import DRPLClassifier, DrplError, arrays, detect, find_label_issues
from drpl.config.compose import compose
from drpl.config.from_data import choose_batch_size, suit_to_vectors
from drpl.errors import ConfigError
from drpl.registry import METHODS
from tests.support.tiny import tiny_pixels

Array = NDArray[Any]
STAGES = ("relabel", "detect", "final")
SHORT: dict[str, Any] = {
    **{f"{stage}_schedule.epochs": 4 for stage in STAGES},
    **{f"{stage}_schedule.rates": [[1, 0.05], [3, 0.005]] for stage in STAGES},
    "warmup_schedule.epochs": 2,
    "relabel.begin": 2,
    "relabel.window": 2,
}
QUICK = {"schedule.epochs": 6, "schedule.rates": [[1, 0.05]]}


def blobs(count: int = 150, wrong: float = 0.2) -> tuple[Array, Array, Array]:
    """Three clouds of vectors; given labels, of which some are wrong; and which are."""
    draws = np.random.default_rng(7)
    true = np.arange(count) % 3
    x = np.eye(3, 5)[true] * 6 + draws.normal(size=(count, 5))
    bad = draws.random(count) < wrong
    return x, np.where(bad, (true + draws.integers(1, 3, count)) % 3, true), bad


@parametrize_with_checks([DRPLClassifier(settings=SHORT, random_state=1)])  # type: ignore[untyped-decorator]
def test_the_contract_of_scikit_learn(estimator: Any, check: Any) -> None:
    """No check is expected to fail."""
    check(estimator)


def test_wrong_labels_are_found_whatever_the_labels_are() -> None:
    x, given, bad = blobs()
    names = np.array(["oak", "ash", "elm"])[given]
    tree = DRPLClassifier(random_state=1).fit(x, names)
    assert tree.classes_.tolist() == ["ash", "elm", "oak"]
    assert roc_auc_score(bad, tree.label_noise_) > 0.97
    assert bad[tree.suspicious_].mean() > 0.9
    scores = tree.label_noise_[tree.suspicious_]
    assert (np.diff(scores) <= 0).all()
    right = np.array(["oak", "ash", "elm"])[np.arange(150) % 3]
    assert (tree.suggested_ == right).mean() > 0.95
    assert tree.score(x, right) > 0.95
    probs = tree.predict_proba(x)
    assert probs.shape == (150, 3)
    assert np.allclose(probs.sum(1), 1, atol=1e-5)
    assert (tree.classes_[probs.argmax(1)] == tree.predict(x)).all()

    numbers = np.array([40, -3, 7])[given]  # in the order of the names: 7 elm, -3 ash, 40 oak
    same = DRPLClassifier(random_state=1).fit(x, numbers)
    assert same.classes_.tolist() == [-3, 7, 40]
    assert np.array_equal(same.predict_proba(x), probs)
    assert np.array_equal(same.suspicious_, tree.suspicious_)


def test_it_is_what_drpl_train_does_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, given, _ = blobs()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    issues = find_label_issues(x, given, settings=SHORT, random_state=5)
    assert not list(tmp_path.iterdir())
    result = detect(
        arrays(x.astype(np.float32), given), settings=SHORT, seed=5, out=tmp_path / "r", quiet=True
    )
    flagged = result.suspicious(150).query("flagged")
    assert issues.tolist() == flagged["id"].tolist()
    table = find_label_issues(x, given, settings=SHORT, random_state=5, return_scores=True)
    assert table.columns.tolist() == ["given", "suggested", "label_noise", "flagged"]
    assert len(table) == 150
    assert table.index[table["flagged"]].tolist() == issues.tolist()
    assert table["label_noise"].is_monotonic_decreasing
    assert (table["given"] == given[table.index]).all()


def test_labels_that_are_equally_doubtful_are_in_one_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Many losses are so high that each is wrong with probability 1: the higher comes first."""

    def judge(self: Any, samples: Any, y: Any, goal: Any) -> Any:
        judged = {
            "loss": np.array([1.0, 9.0, 0.1, 8.0, 9.5]),
            "p_noisy": np.array([0.4, 1.0, 0.4, 1.0, 1.0]),
            "flagged": np.array([False, True, True, True, True]),
            "suggested": np.array([1, 1, 0, 0, 1]),
        }
        self.classes_ = np.unique(y)
        return self._keep(judged)

    monkeypatch.setattr(DRPLClassifier, "_fit", judge)
    x, y = np.zeros((5, 2)), np.array(["b", "a", "b", "a", "b"])
    table = find_label_issues(x, y, return_scores=True)
    assert table.index.tolist() == [4, 1, 3, 0, 2]
    assert table["given"].tolist() == ["b", "a", "a", "b", "b"]
    assert table["suggested"].tolist() == ["b", "b", "a", "b", "a"]
    assert find_label_issues(x, y).tolist() == [4, 1, 3, 2]
    assert table.index[table["flagged"]].tolist() == [4, 1, 3, 2]
    column = find_label_issues(x, y[:, None], return_scores=True)
    assert column.equals(table)


def test_the_seed_decides() -> None:
    x, given, _ = blobs(60)
    a, b, c = (
        DRPLClassifier("cross_entropy", settings=QUICK, random_state=seed).fit(x, given)
        for seed in (1, 1, 2)
    )
    assert np.array_equal(a.predict_proba(x), b.predict_proba(x))
    assert not np.array_equal(a.predict_proba(x), c.predict_proba(x))
    drawn = DRPLClassifier("cross_entropy", settings=QUICK, random_state=np.random.RandomState(3))
    assert drawn.fit(x, given).score(x, given) > 0.5


def test_it_can_be_copied_and_pickled() -> None:
    x, given, _ = blobs(60)
    fitted = DRPLClassifier("cross_entropy", settings=QUICK, random_state=1).fit(x, given)
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict_proba(x), fitted.predict_proba(x))
    assert np.array_equal(again.suspicious_, fitted.suspicious_)
    assert clone(fitted).get_params() == fitted.get_params()
    assert not hasattr(clone(fitted), "model_")


def test_pipeline_grid_and_cross_validation() -> None:
    x, given, bad = blobs(90)
    way = make_pipeline(StandardScaler(), DRPLClassifier("cross_entropy", random_state=1))
    widths = [{**QUICK, "width": width} for width in np.array([1, 8])]  # NumPy's numbers too
    grid = GridSearchCV(way, {"drplclassifier__settings": widths}, cv=2, n_jobs=1)
    grid.fit(x * 1000, given)
    assert grid.best_score_ > 0.6
    way.set_params(drplclassifier__settings=QUICK)
    probs = cross_val_predict(way, x, given, cv=2, method="predict_proba")
    assert roc_auc_score(bad, 1 - probs[np.arange(90), given]) > 0.9


def test_images_in_every_layout() -> None:
    tensor, numbers = tiny_pixels(72, "train")
    grey, labels = tensor.numpy(), numbers.numpy()  # [N, 1, H, W]
    coloured = np.repeat(grey, 3, axis=1) // np.array([1, 2, 3], np.uint8).reshape(3, 1, 1)
    settings = {
        **QUICK,
        "schedule.epochs": 12,
        "width": 4,
        "flip": False,
        "schedule.batch_size": 16,
    }
    cases: list[tuple[Any, ...]] = [
        (1, grey[:, 0], grey, grey.transpose(0, 2, 3, 1), grey / 255, grey.astype(np.int64)),
        (3, coloured.transpose(0, 2, 3, 1), coloured, coloured.astype(np.float32) / 255),
    ]
    for channels, first, *others in cases:
        seen = DRPLClassifier("cross_entropy", settings=settings, random_state=1)
        probs = seen.fit(first, labels).predict_proba(first)
        assert (probs.argmax(1) == labels).mean() > 0.6  # 72 images, on any machine
        for other in others:
            assert np.array_equal(seen.predict_proba(other), probs)
        assert seen.model_.shape == (channels, 8, 8)
        assert not hasattr(seen, "n_features_in_")
        for wrong in (np.zeros((3, 6, 6), np.uint8), np.zeros((3, 64))):
            with pytest.raises(ValueError, match="fitted to"):
                seen.predict(wrong)


def test_what_is_wrong_is_said() -> None:
    x, given, _ = blobs(30)
    with pytest.raises(ConfigError, match="did you mean 'drpl'"):
        DRPLClassifier("drlp").fit(x, given)
    with pytest.raises(ConfigError, match="did you mean 'width'"):
        DRPLClassifier(settings={"widht": 3}).fit(x, given)
    with pytest.raises(ValueError, match="one class only"):
        DRPLClassifier().fit(x, np.zeros(30))
    with pytest.raises(ValueError, match="inconsistent"):
        find_label_issues(np.zeros((5, 8, 8), np.uint8), given)


@pytest.mark.parametrize(("load", "least"), [(load_wine, 0.95), (load_digits, 0.98)])
def test_real_vectors_with_the_shipped_settings(load: Any, least: float) -> None:
    x, true = load(return_X_y=True)
    draws = np.random.default_rng(1)
    bad = draws.random(len(x)) < 0.3
    classes = true.max() + 1
    given = np.where(bad, (true + draws.integers(1, classes, len(x))) % classes, true)
    table = find_label_issues(x, given, return_scores=True).sort_index()
    assert roc_auc_score(bad, table["label_noise"]) > least


@pytest.mark.parametrize(
    ("samples", "classes", "size"),
    [(20, 2, 16), (133, 3, 16), (1347, 10, 32), (5000, 200, 256), (50_000, 10, 1024)],
)
def test_batches_follow_the_samples(samples: int, classes: int, size: int) -> None:
    assert choose_batch_size(samples, classes, 16, 1024) == size


@pytest.mark.parametrize("method", METHODS)
def test_chosen_settings_fit_every_method(method: str) -> None:
    x, given, _ = blobs(3000)
    schema = METHODS[method].load().Config
    settings = suit_to_vectors(schema, len(x), len(set(given.tolist())))
    config = compose(schema, method, ["vectors"], settings)
    assert settings
    for name in settings:
        assert getattr(config, name).batch_size == 64


def test_settings_that_are_no_mapping() -> None:
    x, given, _ = blobs(30)
    with pytest.raises(DrplError, match="settings must be a mapping"):
        find_label_issues(x, given, settings=["width=3"])  # type: ignore[arg-type]


def folds(x: Array, given: Array) -> Array:
    """Predictions for samples that were not trained on."""
    model = make_pipeline(StandardScaler(), LogisticRegression())
    return np.asarray(cross_val_predict(model, x, given, cv=5, method="predict_proba"))


def test_probabilities_that_one_has() -> None:
    x, given, bad = blobs()
    probs, names = folds(x, given), np.array(["ash", "elm", "oak"])
    table = find_label_issues(pred_probs=probs, labels=given, return_scores=True)
    assert table.columns.tolist() == [
        *("given", "suggested", "label_noise", "flagged"),
        *("self_confidence", "normalized_margin"),
    ]
    assert roc_auc_score(bad[table.index], table["label_noise"]) > 0.95
    assert table["label_noise"].is_monotonic_decreasing
    assert (table["given"] == given[table.index]).all()
    issues = find_label_issues(pred_probs=probs, labels=given)
    assert issues.tolist() == table.index[table["flagged"]].tolist()
    assert bad[issues].mean() > 0.9
    named = find_label_issues(pred_probs=probs, labels=names[given], return_scores=True)
    assert (named["suggested"] == names[table["suggested"]]).all()


def test_numbers_in_a_list_of_objects_are_columns() -> None:
    """As those of a column of pandas with gaps: in the alphabet 10 comes before 2."""
    given = np.arange(240) % 12
    probs = np.full((240, 12), 0.01)
    probs[np.arange(240), given] = 0.89
    columns = (given.astype(object), pd.Series(given, dtype="Int64"), given.tolist())
    tables = [find_label_issues(pred_probs=probs, labels=y, return_scores=True) for y in columns]
    assert all((table["self_confidence"] == 0.89).all() for table in tables)
    assert all((table["given"] == given[table.index]).all() for table in tables)
    gap = pd.Series([*given[1:], None], dtype="Int64")
    with pytest.raises(DrplError, match="labels"):
        find_label_issues(pred_probs=probs, labels=gap)


@pytest.mark.parametrize("score", ["self_confidence", "normalized_margin"])
def test_probabilities_are_ranked_as_cleanlab_ranks_them(score: Any) -> None:
    from cleanlab.rank import get_label_quality_scores

    x, given, _ = blobs()
    probs = folds(x, given)
    options: dict[str, Any] = {"pred_probs": probs, "labels": given, "rank_by": score}
    table = find_label_issues(**options, return_scores=True)
    theirs = np.argsort(get_label_quality_scores(given, probs, method=score), kind="stable")
    assert table.index.tolist() == theirs.tolist()
    issues = find_label_issues(**options)
    assert issues.tolist() == [k for k in theirs if table.loc[k, "flagged"]]


def test_arguments_that_do_not_go_together() -> None:
    x, given, _ = blobs(30)
    probs = np.full((30, 3), 1 / 3)
    for wrong in (
        {},
        {"X": x},
        {"pred_probs": probs},
        {"pred_probs": probs, "X": x, "labels": given},
        {"X": x, "labels": given},
        {"X": x, "y": given, "labels": given},
        {"pred_probs": probs, "y": given, "labels": given},
    ):
        with pytest.raises(DrplError, match="give samples X with labels y, or pred_probs"):
            find_label_issues(**wrong)
    with pytest.raises(DrplError, match="did you mean 'self_confidence'"):
        find_label_issues(pred_probs=probs, labels=given, rank_by="confidence")  # type: ignore[arg-type]
    with pytest.raises(DrplError, match="rank_by='self_confidence' is for pred_probs"):
        find_label_issues(x, given, rank_by="self_confidence")
    with pytest.raises(DrplError, match=r"from 0 to 2, got 1\.\.3"):
        find_label_issues(pred_probs=probs, labels=given + 1)
    with pytest.raises(DrplError, match="2 names for 3 columns"):
        find_label_issues(pred_probs=probs, labels=["a", "b"] * 15)


def coloured(count: int = 45) -> tuple[Array, Array]:
    """Images [N, 24, 30, 3] of which each class has a colour."""
    labels = np.arange(count) % 3
    x = np.random.default_rng(5).integers(0, 100, (count, 24, 30, 3)).astype(np.uint8)
    x[np.arange(count), :, :, labels] += 120
    return x, labels


def test_features_of_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # its store is here
    x, labels = coloured()
    names = np.array(["red", "green", "blue"])[labels]
    seer = DRPLClassifier("cross_entropy", features="lite0", settings=QUICK, random_state=1)
    assert clone(seer).get_params()["features"] == "lite0"
    seer.fit(x, names)
    assert seer.model_.input_shape == (3, 128, 128)
    assert seer.score(x, names) > 0.9
    probs = seer.predict_proba(x)
    assert probs.shape == (45, 3)
    assert np.allclose(probs.sum(1), 1, atol=1e-5)
    enlarged = seer.predict(np.repeat(np.repeat(x, 2, 1), 2, 2))
    assert (enlarged == names).mean() > 0.7  # scaled otherwise, so they are not quite the same
    assert np.allclose(seer.predict_proba(x.transpose(0, 3, 1, 2)), probs, atol=1e-5)
    for wrong in (np.zeros((4, 7)), np.zeros((4, 1280))):  # vectors, where images are wanted
        with pytest.raises(ValueError, match=r"X has samples of shape .* was fitted to \(3, "):
            seer.predict(wrong)
    with pytest.raises(DrplError, match="holds vectors; there are no images to encode"):
        clone(seer).fit(x.reshape(45, -1), names)


def test_a_fitted_estimator_of_features_can_be_pickled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    x, labels = coloured(30)
    seer = DRPLClassifier("cross_entropy", features="lite0", settings=QUICK, random_state=1)
    probs = seer.fit(x, labels).predict_proba(x)
    again = pickle.loads(pickle.dumps(seer))
    assert "encoder" in vars(seer.model_)  # loaded, but no part of what is stored
    assert np.allclose(again.predict_proba(x), probs, atol=1e-6)
