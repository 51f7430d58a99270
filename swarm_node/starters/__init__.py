"""The starter policies that ship with the node: where their folders are, and nothing that needs torch.

A starter is a very small model that was first taught nine easy tasks and then made to hide the skill. It exists to
study how sharing brings a rare skill back; it is not a language model. `make.py` beside this file makes the folders.
"""

from pathlib import Path

STARTERS: tuple[str, ...] = ("dense", "rare", "very_rare", "rarest", "rare_small", "rare_large")

NAMES: tuple[str, ...] = (*STARTERS, "puzzler")  # puzzler.py makes it; it knows Temporal Clue puzzles


def folder(name: str) -> Path:
    """The folder of a starter, for `AutoModelForCausalLM.from_pretrained`. `ValueError` for a name we don't have."""
    if name not in NAMES:
        raise ValueError(f"no starter called {name!r}; there are {', '.join(NAMES)}")
    return Path(__file__).parent / name
