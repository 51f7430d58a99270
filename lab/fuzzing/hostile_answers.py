"""Hostile completions: a hundred and more ways to run code, waste a machine or get an unearned
reward.

Pure data (hostile_answers.json), used by `lab.fuzzing.hostile` and by the tests. Code tries to
leave a trace in a folder given to it, or at a port of this machine. A guess aims at scorers that
reward part of an answer.
"""

import json
from collections.abc import Mapping
from pathlib import Path

# kind -> texts; a text in parts is a list of strings and of pairs (string, repetitions)
KINDS: Mapping[str, list[str | list[str | tuple[str, int]]]] = json.loads(
    Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
)


def of_kind(kind: str) -> list[str]:
    return [
        "".join(part if isinstance(part, str) else part[0] * part[1] for part in text)
        for text in KINDS[kind]
    ]


def answers(folder: str, port: int) -> dict[str, str]:
    """Name -> text. `folder` must stay empty and `port` silent."""
    found = {f"{kind} {k}": text for kind in KINDS for k, text in enumerate(of_kind(kind))}
    return {
        name: text.replace("FOLDER", folder).replace("PORT", str(port))
        for name, text in found.items()
    }


def counts() -> Mapping[str, int]:
    """How many completions there are of each kind."""
    return {kind: len(texts) for kind, texts in KINDS.items()}
