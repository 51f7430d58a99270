"""Writes protocol/vectors/*.json: `python -m lab.vectors [FOLDER]`. Every run writes the same
bytes.
"""

import sys
import tomllib
from pathlib import Path

from lab.vectors import cards, dials, frames, keys, messages, seeds, texts
from lab.vectors.forms import FOLDER, written

NOTES = tomllib.loads(Path(__file__).with_name("notes.toml").read_text())
FILES = {
    "announcement": messages.announcements,
    "cards": cards.cards,
    "canonical": texts.canonical_forms,
    "dials": dials.dials,
    "frames": frames.frames,
    "group": messages.groups,
    "keys": keys.keys,
    "members": cards.members,
    "seed": seeds.seeds,
    "signature": keys.signatures,
}


def files() -> dict[str, bytes]:
    """The content of every file, by name."""
    return {f"{name}.json": written(make(), NOTES) for name, make in FILES.items()}


if __name__ == "__main__":
    for name, content in files().items():
        Path(sys.argv[1] if len(sys.argv) > 1 else FOLDER, name).write_bytes(content)
        print(f"{name}: {content.count(b'tcId')} tests, {len(content)} bytes")
