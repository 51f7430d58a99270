"""What must outlive a restart, as plain data for a JSON file: without it old messages would count as new."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from protocol import limits
from protocol.messages import GroupHash, PeerId

Seconds = Annotated[float, Field(allow_inf_nan=False)]
Sequence = Annotated[int, Field(ge=0, le=limits.MAX_SEQUENCE)]


class Remembered(BaseModel):
    """What the exchange keeps over a restart."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seq: Sequence  # of the last own announcement
    received: Mapping[PeerId, tuple[Sequence, Seconds]]  # author -> its last number, seconds ago
    seen: tuple[GroupHash, ...]  # groups handed to the trainer, oldest first
    bans: Mapping[PeerId, Seconds]  # seconds yet to run

    @classmethod
    def parse(cls, state: Mapping[str, Any]) -> "Remembered":
        """ValueError of one line where this is not what `dump` made."""
        try:
            return cls.model_validate(state)
        except ValidationError as error:
            first = error.errors()[0]
            raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None

    def dump(self) -> dict[str, Any]:
        """Plain data; `parse` is the inverse."""
        return self.model_dump(mode="json")
