"""The base of every configuration: frozen, and closed to unknown keys."""

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """A frozen record of settings; its fields are the only keys it accepts."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
