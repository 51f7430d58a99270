"""What all options are made of: frozen, strict about names, their docstrings the help texts of the command line."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]


@dataclass(frozen=True)
class PlugIn:
    """Marks an option that names what can be plugged in: a registered name, or FILE:NAME beside the configuration."""

    kind: str  # "environments", "samplers", ...


class Section(BaseModel):
    """Base of every group of options."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
