"""The base of every configuration: frozen, and closed to unknown keys."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

# Settings of later versions: written only where they are used, so that older runs stay the same.
LATER = (
    *("pretrained", "frozen", "full_precision"),  # of every method
    *("mean_of_epochs", "mirrored", "warm_start"),  # of DRPL
    *("nesterov", "cycle", "effort"),  # of schedules
)

IN_EPOCHS = "in epochs"
EpochCount = Annotated[int, IN_EPOCHS]  # a setting that follows the length of a schedule


class Settings(BaseModel):
    """A frozen record of settings; its fields are the only keys it accepts."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False
    )

    def describe(self) -> dict[str, Any]:
        """All settings as a file has them, without those of later versions that are not used."""
        described = self.model_dump(mode="json", exclude_none=True)
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if isinstance(value, Settings):
                described[name] = value.describe()
            elif name in LATER and value == field.default:
                del described[name]
        return described


class StrongView(Settings):
    """What a strongly augmented view has beyond crop and mirror; 0 leaves a part of it out.

    A method that asks for such views has a field `strong` of this kind.
    """

    area: float = Field(default=1.0, gt=0, le=1)
    """The least share of the image's area that is cut out and enlarged; 1: the whole."""
    operations: int = Field(default=2, ge=0, le=10)
    """How many operations change an image, as in RandAugment: each is drawn from rotating, shearing
    and shifting, brightness, contrast, saturation, fewer bits, negative, full range; half of them
    are then left out."""
    level: float = Field(default=0.5, ge=0, le=1)
    """How strong the strongest of them are; 1: rotations up to 30 degrees, and the like."""
    jitter: float = Field(default=0.0, ge=0, le=1)
    """The chance that brightness, contrast and saturation change by up to 0.4, the hue by 0.1."""
    grey: float = Field(default=0.0, ge=0, le=1)
    """The chance that an image loses its colours."""
    cutout: float = Field(default=0.0, ge=0, le=1)
    """The side of a square that is blanked, as a share of the image's."""
    noise: float = Field(default=0.5, ge=0)
    """Vectors get Gaussian noise of this share of each number's deviation."""
    drop: float = Field(default=0.1, ge=0, lt=1)
    """Vectors lose each of their numbers by this chance."""


class Common(Settings):
    """What every method's configuration has: the network and the views it is shown."""

    network: str = "auto"
    """A name from `drpl list networks`; auto suits the data."""
    width: int = Field(default=64, gt=0, le=4096)
    """Channels of the first stage; the paper's networks have 64."""
    pretrained: bool = False
    """Whether networks begin with pretrained weights, all but their classifiers: for lite0, lite2
    and timm:NAME@FILE."""
    frozen: int = Field(default=0, ge=0)
    """How many parts of a pretrained network keep their weights: its stem, then its stages."""
    padding: float = Field(default=0.125, ge=0, lt=1)
    """Zero-padding before the random crop, as a share of the side."""
    crop: float = Field(default=1.0, gt=0, le=1)
    """Share of the side that is cropped: at random to train, the centre to test."""
    dimensions: int | None = Field(default=None, gt=0)
    """Principal components that vectors are brought to; none: all their numbers are used."""
    flip: bool = True
    """Whether images are mirrored at random."""
    full_precision: bool = False
    """Train in float32 on every GPU; otherwise in bfloat16 where the GPU has hardware for it. CPUs
    train in float32. Convolutions round to TF32 where torch lets cuDNN do so, as it does by
    default; `torch.backends.cudnn.allow_tf32 = False` forbids it."""
