"""What the trainer works on: groups as token ids, with what is recorded of every token."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from swarm_node.policy import rows

Recorded = Sequence[list[float] | None]  # per completion a value for every token; None where none was recorded


@dataclass(frozen=True, slots=True)
class Example:
    """A group, or one completion of it, as token ids. Completions without a token, or masked out, are not in it.

    Log-probs that are not recorded are those that the step itself computes: in the first step nothing has moved.
    """

    row: rows.Row
    advantages: list[float]  # one per completion
    external: list[bool]  # one per completion: whether a peer generated it
    behaviour: Recorded  # log-probs of the policy that generated it; external: of this policy before the first step
    proximal: Recorded  # log-probs of this policy before the first step
    staleness: Recorded  # updates since each token was generated; None for external completions

    def pieces(self, columns: int) -> list["Example"]:
        """The same in rows of at most so many columns; 0 gives each completion its own row, the padded layout."""
        return [self.only(piece) for piece in rows.split(self.row, columns)]

    def only(self, chosen: Sequence[int]) -> "Example":
        """The same prompt with these of its completions."""
        return Example(
            rows.Row(self.row.prompt, [self.row.completions[i] for i in chosen]),
            [self.advantages[i] for i in chosen],
            [self.external[i] for i in chosen],
            [self.behaviour[i] for i in chosen],
            [self.proximal[i] for i in chosen],
            [self.staleness[i] for i in chosen],
        )


def flat_values(recorded: Recorded, parts: list[Example], otherwise: Tensor) -> Tensor:
    """[tokens] of what was recorded for each completion; where nothing was, `otherwise` [tokens]."""
    unknown = float("nan")
    completions = [ids for part in parts for ids in part.row.completions]
    values = [
        value for ids, known in zip(completions, recorded, strict=True) for value in (known or [unknown] * len(ids))
    ]
    flat = torch.tensor(values, dtype=otherwise.dtype, device=otherwise.device)
    return torch.where(flat.isnan(), otherwise, flat)
