"""Where the model of a configuration lies, and whether it can be had: found out before torch is loaded."""

from pathlib import Path

from swarm_node import starters
from swarm_node.common.errors import UserError
from swarm_node.policy import hub
from swarm_node.settings import ModelConfig


def check_model(config: ModelConfig) -> None:
    """UserError, within seconds, for a folder that does not exist, and for a hub model that is neither here nor can be
    reached. What is wrong inside a folder is found when it is loaded."""
    name = config.name
    if name in starters.NAMES or Path(name).expanduser().is_dir():
        return
    if hub.is_hub_name(name):
        hub.only_here(name, config.revision)
        return
    raise UserError(f"model folder {name!r} does not exist")


def folder(name: str) -> Path:
    """Of a starter or a folder, as far as it is on this machine; a hub name is none."""
    return starters.folder(name) if name in starters.NAMES else Path(name).expanduser()
