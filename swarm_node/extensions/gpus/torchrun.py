"""Whether torchrun started this process as one of several ranks. Needs no torch."""

import os
from collections.abc import Mapping


def is_rank(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether there are others beside it."""
    return "TORCHELASTIC_RUN_ID" in environment and int(environment.get("WORLD_SIZE", "1")) > 1


def size(environment: Mapping[str, str] = os.environ) -> int:
    """How many ranks there are."""
    return int(environment["WORLD_SIZE"]) if is_rank(environment) else 1


def follows(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether it is one of those that do what rank 0 says."""
    return is_rank(environment) and environment["RANK"] != "0"
