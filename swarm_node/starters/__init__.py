"""The starter policies that ship with the node, and their folders. Needs no torch.

A starter is a very small model that was first taught nine easy tasks and then made to hide the
skill. It is for studying how sharing brings a rare skill back; it is not a language model.
`make.py` makes the folders.
"""

from pathlib import Path

STARTERS: tuple[str, ...] = ("dense", "rare", "very_rare", "rarest", "rare_small", "rare_large")

# puzzler.py makes it; it knows Temporal Clue puzzles
NAMES: tuple[str, ...] = (*STARTERS, "puzzler")


def folder(name: str) -> Path:
    """The folder of a starter, for `AutoModelForCausalLM.from_pretrained`. `ValueError` for an
    unknown name.
    """
    if name not in NAMES:
        raise ValueError(f"no starter called {name!r}; there are {', '.join(NAMES)}")
    return Path(__file__).parent / name
