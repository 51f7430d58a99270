"""Where a model of a configuration lies. Needs no torch; learner.py loads it."""

from pathlib import Path

from swarm_node import starters


def folder(name: str) -> Path:
    """Of a starter or a folder, as far as it is on this machine; a hub name is none."""
    return starters.folder(name) if name in starters.NAMES else Path(name).expanduser()
