"""A hub on loopback with tiny models that have the names of those for graphics cards, and a card
that is a script.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab.benchmarks.foretold import CARDS
from swarm_node.policy.by_card import CHOICES, QWEN2_5_0_5B, QWEN2_5_1_5B, Model
from tests.hub_stand_in import Hub, hub_on_loopback
from tests.models import characters, tiny_model

CONTEXT = 2048  # tokens; the questions of a chat take hundreds of characters
SHARD = "40KB"  # the larger models have several files, as on the hub
MODELS = {choice.model.name: choice.model for choice in CHOICES}
CAPABILITY = "8.6"  # of a card that multiplies bfloat16


def card(folder: Path, size: int) -> None:
    """Makes a program of the driver in this folder, which says that a card of this size is here."""
    made = CARDS[size]
    row = f"GPU-1, {made.total}, {made.free}, 580.65.06, {CAPABILITY}, {made.name}"
    folder.mkdir(exist_ok=True)
    file = folder / "nvidia-smi"
    file.write_text(f"#!/bin/sh\necho '{row}'\n")
    file.chmod(0o700)


def files_of(model: Model) -> dict[str, bytes]:
    """The files of a tiny model of the same family."""
    small = model in (QWEN2_5_0_5B, QWEN2_5_1_5B)
    made: Any = tiny_model("Qwen2" if small else "Qwen3", max_position_embeddings=CONTEXT)
    with tempfile.TemporaryDirectory() as folder:
        made.save_pretrained(folder, max_shard_size="1GB" if small else SHARD)
        characters(chat=True).save_pretrained(folder)
        found = {path.name: path.read_bytes() for path in Path(folder).iterdir()}
    assert small == ("model.safetensors" in found), sorted(found)
    return found


@contextmanager
def hub_of_tiny_models() -> Iterator[Hub]:
    """The hub, which has each model at its pinned commit."""
    with hub_on_loopback() as served:
        for name, model in MODELS.items():
            served.files[name] = files_of(model)
            served.commits[name] = model.hub.revision
        yield served
