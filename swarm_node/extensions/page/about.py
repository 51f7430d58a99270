"""What a run is: its manifest, its options and where they come from, its checkpoints and how each is used."""

import json
import shlex
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from swarm_node.common import private
from swarm_node.common.redaction import hidden_within
from swarm_node.extensions.page import checked
from swarm_node.settings import NodeConfig, SimulationConfig, with_sections
from swarm_node.settings.options import describe, flatten
from swarm_node.telemetry.jsonlines import record_of

MOST_BYTES = 4 * 1024 * 1024  # of a manifest
MOST_STATE_BYTES = 64 * 1024 * 1024  # of the state of a checkpoint, which holds the pool
MOST_CHECKPOINTS = 64
MOST_OPTIONS = 2000
SECRET = ("token", "key", "password", "secret")  # last words of names of options whose values are not shown
T = TypeVar("T")


def read_manifest(folder: Path) -> dict[str, Any]:
    """Empty where there is none, or where it is broken. It is shown, and obeyed in nothing: the folder may be a
    stranger's. Without secrets, which earlier versions wrote there."""
    try:
        return dict(hidden_within(_object(folder / "manifest.json", MOST_BYTES)))
    except RecursionError:
        return {}


def _object(path: Path, most: int) -> dict[str, Any]:
    try:
        content = private.read_plain(path, most + 1)
    except OSError:
        return {}
    return (record_of(content) or {}) if len(content) <= most else {}


def about(folder: Path) -> dict[str, Any]:
    """As plain data for the browser. `options`: name, value, default, where from, what it means."""
    content = read_manifest(folder)
    facts = {name: _right(partial(kind, content.get(name))) for name, kind in FACTS.items()}
    return {**facts, "folder": str(folder), "options": _options(content), "checkpoints": checkpoints(folder)}


def _right(found: Callable[[], T]) -> T | None:
    """None where a field is not what it should be."""
    try:
        return found()
    except ValueError:
        return None


def _fact(value: Any) -> Any:
    """A text, a number, or a list of texts."""
    if isinstance(value, list):
        return checked.rows(value, checked.text, checked.REASONS)
    return checked.text(value) if isinstance(value, str) else checked.number(value)


FACTS: Mapping[str, Callable[[Any], Any]] = {
    "kind": checked.text,
    "started": checked.text,
    "command": lambda value: checked.rows(value, checked.text, checked.MANY),
    "commit": checked.text,
    "versions": lambda value: checked.table(value, checked.text),
    "hardware": lambda value: checked.table(value, _fact),
}


def _options(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    kind = with_sections(SimulationConfig if content.get("kind") == "simulation" else NodeConfig)
    config, texts = content.get("config"), describe(kind)
    if not isinstance(config, dict):
        return []
    defaults = flatten(kind().model_dump(mode="json"))
    origins = content.get("origins")
    origins = origins if isinstance(origins, dict) else {}
    try:
        given = list(flatten(config).items())[:MOST_OPTIONS]
    except RecursionError:
        return []
    found = []
    for name, value in given:
        hidden = name.replace(".", "_").rpartition("_")[2] in SECRET and bool(value)
        differs = name not in defaults or value != defaults[name]
        found.append(
            {
                "name": name[: checked.NAME],
                "value": "hidden" if hidden else _value(value),
                "default": defaults.get(name),
                "differs": differs,
                "origin": str(origins.get(name, "given" if differs else "default"))[: checked.NAME],
                "text": texts.get(name, ""),
            }
        )
    return found


def _value(value: Any) -> Any:
    """As a person reads it; of a value that no option has, its JSON."""
    if isinstance(value, list):
        return [_value(each) for each in value[: checked.MANY]]
    if isinstance(value, str):
        return value[: checked.LINE]
    plain = value is None or isinstance(value, bool) or _right(lambda: checked.number(value)) is not None
    return value if plain else json.dumps(value)[: checked.NAME]


def checkpoints(home: Path) -> list[dict[str, Any]]:
    """Whole ones, the newest first, then the best one."""
    folders = sorted((home / "checkpoints").glob("[0-9]*"), reverse=True)[:MOST_CHECKPOINTS]
    return [found for folder in [*folders, home / "best"] if (found := _checkpoint(folder))]


def _checkpoint(folder: Path) -> dict[str, Any] | None:
    state = _object(folder / "state.json", MOST_STATE_BYTES)
    try:
        size = sum(file.lstat().st_size for file in folder.iterdir())
        written = (folder / "state.json").stat().st_mtime
    except OSError:
        return None
    if not state:
        return None
    path = str(folder)
    return {
        "name": folder.name,
        "rounds": _right(lambda: checked.whole(state.get("rounds"))),
        "bytes": size,
        "time": written,
        "uses": {
            "measure it": f"swarm-node model eval {shlex.quote(path)}",
            "train from it": f"swarm-node run --model.name {shlex.quote(path)} --home NEW_FOLDER",
            "load it": f"AutoModelForCausalLM.from_pretrained({path!r})",
        },
    }
