"""What commands answer with `--json`: one model each, which is also the documented schema."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    import pandas as pd


class Answer(BaseModel):
    """What a command found or wrote; fields may be added, but keep their names and meaning."""

    model_config = ConfigDict(extra="forbid")

    notes: list[str] = Field(default_factory=list, description="what the user should know")

    @property
    def exit_code(self) -> int:
        """0 if all went well."""
        return 0


class Interval(BaseModel):
    """A share of all labels, and where it lies with 95 %."""

    value: float
    low: float
    high: float


class Suspicious(BaseModel):
    """A label that is probably wrong."""

    id: int
    path: str = Field(description="empty where it is no file")
    given_label: str
    suggested_label: str
    p_noisy: float
    confidence: float


def list_suspicious(table: "pd.DataFrame") -> list[Suspicious]:
    """Rows of samples.csv or issues.csv."""
    columns = [*Suspicious.model_fields]
    return [Suspicious(**row) for row in table[columns].to_dict("records")]


class Cleaned(Answer):
    """`clean`: the figures of clean.json and the worst labels."""

    folder: Path
    samples: int
    noise_rate: Interval
    issues: int = Field(description="labels that are listed in issues.csv")
    verdicts: dict[str, int]
    doubts: list[str] = Field(description="what makes the result doubtful")
    worst: list[Suspicious]
    report: Path


class TagsCleaned(Answer):
    """`clean` where images have several labels each: entries that are probably wrong."""

    folder: Path
    samples: int
    issues: int = Field(description="entries that are listed in label-issues.csv")
    kinds: dict[str, int] = Field(description="labels that are wrong, and that are missing")
    worst: list[dict[str, Any]]
    report: Path


class Ran(Answer):
    """`train` and `detect`: the figures of result.json and the most suspicious labels."""

    folder: Path
    method: str
    dataset: str
    noise: str | None
    seed: int
    samples: int
    flagged: int
    accuracy: dict[str, float | None] = Field(description="percent of the test part: last, best")
    detection: dict[str, float | None] | None = Field(description="where the truth is known")
    suspicious: list[Suspicious]


class Stage(BaseModel):
    """A stage of a run that was not carried out."""

    stage: str
    epochs: int
    steps: int
    batch_size: int
    seconds: float


class Planned(Answer):
    """`train --dry-run` and `detect --dry-run`: what a run would take."""

    stages: list[Stage]
    seconds: float
    memory: int = Field(description="bytes at the peak")


class Compared(Answer):
    """`compare`, `study`, `reproduce`: a row per run as in table.csv; exit code 1 if one failed."""

    folders: list[Path]
    rows: list[dict[str, Any]]
    failures: dict[str, str] = Field(description="why, by run")

    @property
    def exit_code(self) -> int:
        """1 if a run failed."""
        return int(bool(self.failures))


class Forecast(Answer):
    """`reproduce --dry-run`: what would be run, one line each."""

    lines: list[str]


class Scored(Answer):
    """`score`: each detector's figures on each run, as in the table of `-o`."""

    rows: list[dict[str, Any]]


class Judged(Answer):
    """`score --probs`: how many labels are probably wrong, and the worst of them."""

    samples: int
    flagged: int
    worst: list[dict[str, Any]]


class Predicted(Answer):
    """`predict`: a row per image; exit code 1 if a file could not be read."""

    rows: list[dict[str, Any]]
    unread: list[str]

    @property
    def exit_code(self) -> int:
        """1 if a file could not be read."""
        return int(bool(self.unread))


class Examined(Answer):
    """`doctor`: facts and warnings, and with --presets seconds by preset."""

    facts: dict[str, str]
    warnings: list[str]
    presets: dict[str, float]
    files: list[Path]


class Looked(Answer):
    """`look`: where a model sees the given label of images, and another."""

    images: list[dict[str, Any]]
    files: list[Path]


class Probed(Answer):
    """`probe`: how well features separate classes, as in probes.csv."""

    rows: list[dict[str, Any]]
    files: list[Path]


class Noised(Answer):
    """`noise`: how many labels are wrong now."""

    samples: int
    wrong: int
    rate: float
    files: list[Path]


class Wrote(Answer):
    """`encode`, `confusion`, `export`, `export-labels`, `report`, `figures`: files and counts."""

    files: list[Path]
    counts: Mapping[str, float] = Field(default_factory=dict)


class Reviewed(Answer):
    """`review`: how many issues are decided, and the text that it prints."""

    issues: int
    decided: int
    lines: list[str]


class Applied(Answer):
    """`apply`: what was changed, or would be with --dry-run."""

    images: int
    changes: list[dict[str, Any]]
    trainable: Path | None = Field(description="what to train on; none with --dry-run")


class Listed(Answer):
    """`list`: names and what each is, by kind."""

    names: dict[str, dict[str, str]]


ANSWERS: dict[str, tuple[type[Answer], ...]] = {
    "clean": (Cleaned, TagsCleaned),
    "review": (Reviewed,),
    "apply": (Applied,),
    "doctor": (Examined,),
    "train": (Ran, Planned),
    "detect": (Ran, Planned),
    "compare": (Compared,),
    "study": (Compared,),
    "reproduce": (Compared, Forecast),
    "score": (Scored, Judged),
    "look": (Looked,),
    "probe": (Probed,),
    "noise": (Noised,),
    "confusion": (Wrote,),
    "encode": (Wrote,),
    "list": (Listed,),
    "report": (Wrote,),
    "figures": (Wrote,),
    "predict": (Predicted,),
    "export": (Wrote,),
    "export-labels": (Wrote,),
}


def describe_answers() -> str:
    """The models as Markdown, for docs/commands.md."""
    parts = []
    for model in dict.fromkeys(one for models in ANSWERS.values() for one in models):
        schema = model.model_json_schema()
        head = " ".join((model.__doc__ or "").split())
        rows = [f"### {model.__name__}", "", head, "", "| field | type | |", "| --- | --- | --- |"]
        for name, field in schema["properties"].items():
            about = field.get("description", "")
            rows.append(f"| `{name}` | {_name_type(field)} | {about} |")
        parts.append("\n".join(rows))
    return "\n\n".join(parts)


def _name_type(field: dict[str, Any]) -> str:
    """A type in few words."""
    if "anyOf" in field:
        return " or ".join(map(_name_type, field["anyOf"]))
    if "$ref" in field:
        return str(field["$ref"]).rpartition("/")[2]
    if field.get("type") == "array":
        return f"list of {_name_type(field['items'])}"
    if isinstance(inner := field.get("additionalProperties"), dict):
        return f"object of {_name_type(inner)}"
    return str(field.get("format") or field.get("type", "anything"))
