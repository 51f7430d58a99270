"""Where the model of a configuration lies, and whether it can be had: found out before torch is loaded."""

from pathlib import Path

from swarm_node import starters
from swarm_node.common.errors import UserError, printable
from swarm_node.policy import hub, named
from swarm_node.settings import ModelConfig
from swarm_node.settings.options import meant


def is_starter(name: object) -> bool:
    """Whether this is the name of a starter."""
    return name in starters.NAMES


def check_model(config: ModelConfig, tell: named.Tell = named.say) -> None:
    """UserError, within seconds, for a folder that does not exist, and for a hub model that is neither here nor can be
    reached. What is wrong inside a folder is found when it is loaded. A known model by its short name is got."""
    name = config.name
    if name in named.KNOWN:
        named.obtain(name, tell)
    elif is_starter(name) or Path(name).expanduser().is_dir():
        return
    elif hub.is_hub_name(name):
        hub.only_here(_of_hub(name), config.revision)
    else:
        raise UserError(f"model folder {name!r} does not exist")


def folder(name: str) -> Path:
    """Of a starter, of a known model or a folder, as far as it is on this machine; a hub name is none."""
    if name in named.KNOWN:
        return named.folder(name)
    return starters.folder(name) if name in starters.NAMES else Path(name).expanduser()


def source(name: str) -> str:
    """What transformers loads: a folder, got first where it is that of a known model; or a hub name. UserError."""
    if name in named.KNOWN:
        place = named.folder(name)
        return str(place if named.is_whole(place) else named.obtain(name))
    if name in starters.NAMES and not starters.folder(name).exists():
        raise UserError(f"starter {name} is missing from this installation: install textswarm again")
    return str(starters.folder(name)) if name in starters.NAMES else _of_hub(name)


def _of_hub(name: str) -> str:
    """The same name. UserError where a starter or a known model was probably meant."""
    near = "" if "/" in name or Path(name).is_dir() else meant(name, (*starters.NAMES, *named.KNOWN))
    if near:
        raise UserError(f"there is no model {printable(name)!r}: did you mean {near!r}? A hub model is OWNER/NAME")
    return name
