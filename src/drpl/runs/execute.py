"""From an experiment to a finished run folder: what `drpl train` and `drpl.train` do."""

import platform
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from drpl.config.settings import Common
from drpl.data.dataset import Dataset, Origin
from drpl.data.readers.folder import check_no_images
from drpl.detection.metrics import score
from drpl.distributed import barrier, first_succeeded, processes, rank, world
from drpl.errors import ConfigError, RunError, StorageError
from drpl.files import check_apart, digest, lock_folder, read_arrays, write_atomic, write_json
from drpl.networks.build import Builder
from drpl.registry import DATASETS
from drpl.runs import model
from drpl.runs.display import Display
from drpl.runs.driver import FolderDriver
from drpl.runs.experiment import AnyData, Execution, Experiment, Goal, Recipe
from drpl.runs.folder import (
    Arrays,
    Result,
    find_difference,
    knows_its_data,
    summarize,
    write_samples,
)
from drpl.runs.gallery import select_images, write_gallery
from drpl.runs.loggers import Logs, check_loggers
from drpl.runs.machine import check_memory, count_cores
from drpl.runs.run import Context, OracleRun, Outcome, Run
from drpl.training.evaluate import predict
from drpl.training.tables import map_in


def train(
    data: AnyData,
    *,
    method: str | Recipe = "drpl",
    config: Common | None = None,
    network: Builder | None = None,
    noise: str | None = None,
    ood: AnyData | None = None,
    confusion: Path | str | None = None,
    preset: str | Iterable[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    seed: int = 1,
    out: Path | str | None = None,
    device: str | None = None,
    save_every: float = 10.0,
    track_every: int = 0,
    log: str | Iterable[str] | None = None,
    quiet: bool = False,
    goal: Goal = "train",
) -> Result:
    """Train a method on a data set, judge its labels, and write everything to a folder.

    `data` is a name, a path, or a data set in memory. `method` is a name, or a function of one's
    own with its `config`. `network`, a function of the images' shape and the number of classes,
    takes the place of the one that the settings name. `settings` is a mapping such as
    `{"relabel": {"begin": 20}}`. Some noises draw on `ood`, a data set of other classes, or on
    `confusion`, a file that says which classes look alike. `log` names other places that show
    the epochs: tensorboard, wandb, mlflow. `track_every` observes every loss each N epochs, which
    takes additional passes. Run it again with the same arguments to continue where it stopped.
    """
    execution = Execution(
        folder=Path(out) if out else None,
        device=device,
        save_every=save_every,
        track_every=track_every,
        loggers=check_loggers(log),
        quiet=quiet,
    )
    with processes():
        experiment = Experiment.build(
            data,
            method=method,
            config=config,
            network=network,
            noise=noise,
            ood=ood,
            confusion=confusion,
            preset=preset,
            settings=settings,
            seed=seed,
            goal=goal,
        )
        return execute(experiment, execution)


def detect(data: AnyData, **arguments: Any) -> Result:
    """Find wrong labels only: like `train`, but without training the final model."""
    return train(data, goal="detect", **arguments)


@processes()
def execute(experiment: Experiment, execution: Execution) -> Result:
    """Carry out an experiment in its folder, or continue it where it stopped."""
    folder = execution.folder or experiment.default_folder()
    first = rank() == 0
    check_memory()
    _check_claim(folder, experiment)
    if execution.threads:
        torch.set_num_threads(execution.threads)
    with (
        _write_alone(folder, experiment, wait=execution.wait),
        map_in(folder),
        _show(execution, first) as display,
        Logs(folder, execution.loggers if first else (), experiment.describe(), display) as logs,
    ):
        finished = Result.load(folder) if (folder / "result.json").exists() else None
        if finished and finished.summary["goal"] in ("train", experiment.goal):
            logs.follow()
            return finished
        device = choose_device(execution.device)
        if first:
            write_json(folder / "noise.json", experiment.manifest)
            write_json(folder / "provenance.json", _trace(experiment, execution, device))
        display.notes(experiment.data.notes)
        if not knows_its_data(folder):
            display.note(
                f"{folder} was begun by an earlier version, which did not record its images: "
                "whether these are the same is not known"
            )
        context = Context.build(experiment, device)
        driver = FolderDriver(context, folder, execution, display, logs)
        outcome = experiment.recipe(make_run(experiment, context, driver), experiment.config)
        _finish(folder, experiment, context, outcome)
    return Result.load(folder)


def _show(execution: Execution, first: bool) -> AbstractContextManager[Display]:
    """The display that the caller has, or one of its own."""
    if execution.display:
        return nullcontext(execution.display)
    return Display(quiet=execution.quiet or not first)


def make_run(experiment: Experiment, context: Context, driver: Any) -> Run:
    """What the method is given; only an oracle's run has the truth."""
    if not experiment.method.oracle:
        return Run(context, driver)
    truth = experiment.data.train.truth
    if truth is None:
        raise ConfigError("an oracle needs the true labels, and these data come without them")
    return OracleRun(context, driver, truth)


def choose_device(name: str | None) -> torch.device:
    """The one asked for, or a GPU if there is one."""
    chosen = name or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        if chosen == "cuda":
            return torch.device("cuda", torch.cuda.current_device())
        device = torch.device(chosen)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"device {chosen!r} cannot be used: {reason}") from None
    return device


def list_versions() -> dict[str, str]:
    """What computed the numbers."""
    packages = ("drpl", "torch", "numpy", "scipy", "scikit-learn")
    return {"python": platform.python_version()} | {name: version(name) for name in packages}


def _check_claim(folder: Path, experiment: Experiment) -> None:
    """Raise if the folder lies among data or holds images, or if another experiment lives there."""
    if origin := experiment.data.origin:
        check_apart(folder, origin.what, origin.ood)
    if not any((folder / name).exists() for name in ("config.toml", "plan.json")):
        check_no_images(folder)
    if difference := find_difference(folder, experiment.describe()):
        raise RunError(
            f"run folder {folder} {difference}; use another folder or the same settings and data"
        )


@contextmanager
def _write_alone(folder: Path, experiment: Experiment, *, wait: bool) -> Iterator[None]:
    """Take a folder for this experiment; of several processes the first locks it for all."""
    with ExitStack() as held:
        refusal: StorageError | None = None
        if rank() == 0:
            try:
                held.enter_context(lock_folder(folder, wait=wait))
            except StorageError as error:
                refusal = error
        if not first_succeeded(refusal is None):
            raise refusal or StorageError(f"another process is writing into {folder}")
        _check_claim(folder, experiment)  # another process may have taken it just before
        barrier()
        if rank() == 0 and not (folder / "config.toml").exists():
            write_atomic(folder / "config.toml", experiment.toml)
        yield


def _trace(experiment: Experiment, execution: Execution, device: torch.device) -> dict[str, Any]:
    """Where and by what a run was made, and from what data."""
    called = Path(sys.argv[0]).stem in ("drpl", "__main__")
    origin, confusion = experiment.data.origin, experiment.confusion
    return {
        "versions": list_versions(),
        "device": str(device),
        "processes": world(),
        "threads": torch.get_num_threads(),
        "cores": count_cores(),
        "track_every": execution.track_every,
        "command": shlex.join(["drpl", *sys.argv[1:]]) if called else None,
        "data": origin and _trace_data(origin),
        "confusion": confusion and str(confusion.resolve()),
        "confusion_digest": confusion and digest(confusion.read_bytes()),
    }


def _trace_data(origin: Origin) -> dict[str, Any]:
    """All that decides which images a data set has; paths hold from any folder."""

    def resolve(what: str) -> str:
        return what if what.partition(":")[0] in DATASETS else str(Path(what).resolve())

    options = origin.read_options
    return {
        "what": resolve(origin.what),
        "ood": origin.ood and resolve(origin.ood),
        "size": options.size,
        "limit": options.limit,
        "data_dir": options.data_dir and str(options.data_dir.resolve()),
        "outside": list(options.outside),
        "skip_broken": options.skip_broken,
        "features": options.features,
        "mirrored": options.mirrored,
        **options.describe_labels(),
    }


def _finish(folder: Path, experiment: Experiment, context: Context, outcome: Outcome) -> None:
    """Write samples, model and, last, `result.json`."""
    data, images = experiment.data, experiment.data.train.images
    probs = predict(outcome.net, images, context.eval_transform, context.device).exp_()
    if rank() > 0:
        barrier()
        return
    model.save(folder, outcome.net, experiment.config, data, context.eval_transform)
    table = _tabulate(data.train, outcome, probs)
    write_samples(folder, table, data.train.classes, data.train.paths, data.train.columns)
    about = experiment.describe()["run"]
    summary = summarize(folder, about, experiment.manifest, list_versions())
    splits = [read_arrays(folder / "splits" / f"{one['stage']}.npz") for one in summary["stages"]]
    pictures = images if len(images.shape) == 3 else data.train.pictures
    if pictures:  # a report shows none of vectors
        ids = select_images(table, [one["noisy"] for one in splits], len(data.train.classes)).ids
        write_gallery(folder / "gallery.npz", ids, pictures.load(torch.tensor(ids)).cpu().numpy())
    if (wrong := table.get("wrong")) is not None:
        summary["detection"] = score(table["loss"], ~table["flagged"], wrong)
        for stage, one in zip(summary["stages"], splits, strict=True):
            stage["detection"] = score(one["losses"], one["clean"], wrong)
    summary |= {"goal": experiment.goal, "classes": list(data.train.classes)}
    summary |= {"flagged": int(table["flagged"].sum()), "notes": list(data.notes)}
    write_json(folder / "result.json", summary)
    barrier()


def _tabulate(train: Dataset, outcome: Outcome, probs: torch.Tensor) -> Arrays:
    """What is known of every sample, and the truth where there is one."""
    split = outcome.split
    confidence, suggested = probs.max(1)
    table = {
        "given": train.labels.numpy(),
        "suggested": suggested.numpy(),
        "confidence": confidence.numpy(),
        "loss": split.losses.numpy(),
        "p_noisy": split.noisy.numpy(),
        "flagged": (~split.clean).numpy(),
    }
    if train.truth is not None:
        table["true"] = train.truth.labels.numpy()
        table["wrong"] = train.truth.is_noisy(train.labels).numpy()
        table["in_distribution"] = train.truth.in_distribution.numpy()
    return table
