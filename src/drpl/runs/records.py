"""What the files of a run must hold to be of use; more is allowed, for later versions' sake.

A reader compares a file with its record before anything in it is believed. What older versions did
not write yet may be missing.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

LARGEST = 2**31  # of counts

Count = Annotated[int, Field(ge=0, lt=LARGEST)]
Names = Annotated[list[str], Field(min_length=1)]
Pair = Annotated[list[FiniteFloat], Field(min_length=2, max_length=2)]


class Record(BaseModel):
    """Types are as they are written: no text for a number."""

    model_config = ConfigDict(strict=True, extra="allow", populate_by_name=True)


class MixtureRecord(Record):
    """The fitted mixture of a split, the component of low losses first."""

    alpha: Pair
    beta: Pair
    weight: Pair
    scale: Pair


class StageRecord(Record):
    """`splits/STAGE.json`, and an entry of `stages` in `result.json`."""

    stage: str
    threshold: FiniteFloat | None = None
    mixture: MixtureRecord | None
    notes: list[str]
    detection: dict[str, FiniteFloat | None] | None = None


class NoiseRecord(Record):
    """`noise.json`: the manifest, of which a reader needs little."""

    spec: str | None
    nominal: FiniteFloat | None = None
    realised: FiniteFloat | None = None
    classes: Names | None = None


class AccuracyRecord(Record):
    """In percent."""

    last: FiniteFloat | None
    best: FiniteFloat | None


class ResultRecord(Record):
    """`result.json`."""

    method: str
    goal: Literal["train", "detect"] | None
    dataset: str
    samples: Count
    classes: Names
    noise: NoiseRecord
    seed: int
    accuracy: AccuracyRecord
    flagged: Count | None
    detection: dict[str, FiniteFloat | None] | None
    notes: list[str]
    stages: list[StageRecord]
    epochs: Count
    images: Annotated[int, Field(ge=0)]
    seconds: Annotated[FiniteFloat, Field(ge=0)]
    versions: dict[str, str]


class RunRecord(Record):
    """The table `run` of `config.toml`."""

    method: str
    dataset: str
    samples: Count
    classes: Annotated[int, Field(ge=1, lt=10**6)]
    seed: int


class ConfigRecord(Record):
    """`config.toml`."""

    run: RunRecord
    settings: dict[str, Any]


class DataRecord(Record):
    """How the data of a run were read."""

    what: str
    ood: str | None = None
    size: Annotated[int, Field(gt=0, lt=LARGEST)] | None = None
    limit: Annotated[int, Field(gt=0, lt=LARGEST)] | None = None
    data_dir: str | None = None
    outside: list[str] = Field(default_factory=list)
    skip_broken: bool = False
    features: str | None = None
    mirrored: bool = False


class ProvenanceRecord(Record):
    """`provenance.json`."""

    versions: dict[str, str] = Field(default_factory=dict)
    data: DataRecord | None = None
    confusion: str | None = None
    confusion_digest: str | None = None


class EncodingRecord(Record):
    """What made vectors of images."""

    encoder: str
    size: Annotated[int, Field(gt=0, le=4096)]
    mirrored: bool
    weights: str


class ModelRecord(Record):
    """`model.json`; that its network is no larger than its weights is seen when it is built."""

    network: str
    width: Annotated[int, Field(gt=0, le=2**16)]
    members: Annotated[int, Field(gt=0, le=100)] = 1
    shape: Annotated[list[Annotated[int, Field(gt=0, lt=2**20)]], Field(min_length=1, max_length=3)]
    classes: Names
    mean: list[FiniteFloat]
    std: list[Annotated[FiniteFloat, Field(gt=0)]]
    crop: Annotated[FiniteFloat, Field(gt=0, le=1)]
    dimensions: Annotated[int, Field(gt=0, lt=2**20)] | None = None
    encoding: EncodingRecord | None = None
    weights: str | None = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        """Images have channels, rows and columns; mean and deviation are those of the first."""
        if len(self.shape) == 2 or not len(self.mean) == len(self.std) == self.shape[0]:
            raise ValueError(f"shape {self.shape} does not fit {len(self.mean)} means")
        return self


class EpochRecord(Record):
    """A line of `history.jsonl`; losses of a run that diverges may be no numbers."""

    stage: str
    epoch: Count
    rate: float
    terms: dict[str, float]
    accuracy: FiniteFloat | None
    train_accuracy: FiniteFloat | None = None
    target_accuracy: FiniteFloat | None = None
    images: Annotated[int, Field(ge=0)]
    seconds: Annotated[FiniteFloat, Field(ge=0)]


class LoggersRecord(Record):
    """`loggers.json`: by logger, how much it was sent."""

    __pydantic_extra__: dict[str, dict[str, Any]]
