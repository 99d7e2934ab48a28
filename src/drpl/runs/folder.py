"""A run folder, read back. Needs neither torch nor the data set."""

import json
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drpl.errors import RunError
from drpl.runs import history

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Result:
    """The folder of a run and the numbers in it."""

    folder: Path
    summary: dict[str, Any]  # result.json
    finished: bool = True

    @classmethod
    def load(cls, folder: Path | str) -> "Result":
        """Read a finished run."""
        path = Path(folder) / "result.json"
        try:
            return cls(Path(folder), json.loads(path.read_text()))
        except FileNotFoundError:
            if (Path(folder) / "config.toml").exists():
                raise RunError(
                    f"the run in {folder} is not finished; run its command again"
                ) from None
            raise RunError(f"{folder} is not the folder of a run: it has no result.json") from None
        except (OSError, ValueError) as error:
            raise RunError(f"{path} is damaged: {error}") from error

    @classmethod
    def so_far(cls, folder: Path | str) -> "Result":
        """Read a run that may still be training: what it has found by now, None for the rest."""
        folder = Path(folder)
        if (folder / "result.json").exists() or not (folder / "config.toml").exists():
            return cls.load(folder)
        try:
            about = tomllib.loads((folder / "config.toml").read_text("utf-8"))["run"]
            noise, origin = (read_json(folder / f"{name}.json") for name in ("noise", "provenance"))
            rows = history.read(folder / "history.jsonl")
            stages = [read_json(folder / "splits" / f"{s}.json") for s in split_names(folder, rows)]
            summary = {
                **{key: about[key] for key in ("method", "dataset", "samples", "seed")},
                "goal": None,
                "classes": noise.get("classes") or [str(k) for k in range(about["classes"])],
                "noise": {key: noise.get(key) for key in ("spec", "nominal", "realised")},
                "accuracy": history.tested(rows),
                "flagged": None,
                "detection": None,
                "notes": [],
                "stages": stages,
                **history.costs(rows),
                "versions": origin.get("versions", {}),
            }
        except (OSError, ValueError, KeyError) as error:
            raise RunError(f"the run in {folder} is damaged: {error}") from error
        return cls(folder, summary, finished=False)

    @property
    def accuracy(self) -> dict[str, float | None]:
        """Test accuracy in percent: `last` and `best`; None without a test set."""
        return dict(self.summary["accuracy"])

    @property
    def detection(self) -> dict[str, float | None] | None:
        """auroc, tpr, fpr, precision, recall; None where the truth is unknown."""
        return dict(self.summary["detection"]) if self.summary["detection"] else None

    @cached_property
    def samples(self) -> "pd.DataFrame":
        """One row a training image."""
        import pandas as pd

        names = {"path": str, "given_label": str, "suggested_label": str}
        return pd.read_csv(self.folder / "samples.csv", dtype=names, keep_default_na=False)

    @cached_property
    def history(self) -> list[history.Row]:
        """One row an epoch."""
        return history.read(self.folder / "history.jsonl")

    def suspicious(self, count: int = 10) -> "pd.DataFrame":
        """The images whose labels are most probably wrong, worst first."""
        ranked = self.samples.sort_values(["p_noisy", "loss"], ascending=False, kind="stable")
        return ranked.head(count)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file, or nothing if it is not there yet."""
    return dict(json.loads(path.read_text("utf-8"))) if path.exists() else {}


def split_names(folder: Path, rows: list[history.Row]) -> list[str]:
    """The stages that were followed by a split, as they were trained, then splits by several."""
    stages = dict.fromkeys(row["stage"] for row in rows)
    known = {path.stem for path in (folder / "splits").glob("*.json")}
    return [*(name for name in stages if name in known), *sorted(known - stages.keys())]
