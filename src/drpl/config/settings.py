"""The base of every configuration: frozen, and closed to unknown keys."""

from pydantic import BaseModel, ConfigDict, Field

# Settings of later versions: written only where they are used, so that older runs stay the same.
LATER = ("pretrained", "frozen", "full_precision")


class Settings(BaseModel):
    """A frozen record of settings; its fields are the only keys it accepts."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False
    )


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
    train in float32."""
