"""What the JSON files of a cleaned folder must hold; see `drpl.runs.records`."""

from typing import Annotated, Any

from pydantic import ConfigDict, Field, FiniteFloat

from drpl.runs.records import Count, EncodingRecord, Names, Record

Share = Annotated[FiniteFloat, Field(ge=0, le=1)]


class PlanRecord(Record):
    """`plan.json`."""

    side: Annotated[int, Field(gt=0, le=4096)] | None
    preset: str
    settings: dict[str, Any] | list[str]
    seeds: Annotated[int, Field(gt=0, le=1000)] = 1
    encoding: EncodingRecord | None = None
    notes: list[str] = Field(default_factory=list)
    tuned: bool = False
    copied: Count = 0
    forecast: list[dict[str, FiniteFloat]] = Field(default_factory=list)
    budget: str | None = None  # as the user wrote it
    data: dict[str, Any] | None = None


class RateRecord(Record):
    """A share with its interval."""

    value: Share
    low: Share
    high: Share


class EstimateRecord(Record):
    """What a review needs of `clean.json`."""

    rate: Annotated[RateRecord, Field(alias="noise rate")]


class CleanRecord(EstimateRecord):
    """`clean.json`."""

    seed: int
    repeats: Annotated[int, Field(gt=0)]
    samples: Count
    issues: Count
    verdicts: dict[str, Count]
    classes: list[dict[str, Any]]
    pairs: list[dict[str, Any]]
    notes: list[str]


class ReadingRecord(Record):
    """By what options the data were read; the names are those of `ReadOptions`."""

    model_config = ConfigDict(strict=True, extra="forbid")

    path_column: str | None = None
    label_column: str | None = None
    label_separator: str | None = None
    label_pattern: str | None = None
    classes: Names = Field(default_factory=list)
    depth: Annotated[int, Field(ge=1)] | None = None
    limit: Annotated[int, Field(ge=1)] | None = None
    data_dir: str | None = None
    outside: Names = Field(default_factory=list)


class AboutRecord(Record):
    """`data.json`."""

    source: str
    root: str | None
    classes: Annotated[Names, Field(min_length=2)]
    time: str | None = None
    columns: list[str] = Field(default_factory=list)
    read: ReadingRecord = Field(default_factory=ReadingRecord)
