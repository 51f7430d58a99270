"""What a run is: its manifest, its options and where they come from, its checkpoints and how each is used."""

import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from swarm_node.settings import NodeConfig, SimulationConfig
from swarm_node.settings.sources import describe, flatten

MOST_BYTES = 4 * 1024 * 1024  # of a manifest
SECRET = ("token", "key", "password", "secret")  # last words of names of options whose values are not shown


def read_manifest(folder: Path) -> dict[str, Any]:
    """Empty where there is none, or where it is broken."""
    path = folder / "manifest.json"
    try:
        content = json.loads(path.read_bytes()) if path.stat().st_size <= MOST_BYTES else {}
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def about(folder: Path) -> dict[str, Any]:
    """As plain data for the browser. `options`: name, value, default, where from, what it means."""
    content = read_manifest(folder)
    facts = {name: content.get(name) for name in ("kind", "started", "command", "commit", "versions", "hardware")}
    return {**facts, "folder": str(folder), "options": list(_options(content)), "checkpoints": checkpoints(folder)}


def _options(content: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    kind = SimulationConfig if content.get("kind") == "simulation" else NodeConfig
    config, texts = content.get("config"), describe(kind)
    if not isinstance(config, dict):
        return
    defaults = flatten(kind().model_dump(mode="json"))
    origins = content.get("origins")
    origins = origins if isinstance(origins, dict) else {}
    for name, value in flatten(config).items():
        hidden = name.replace(".", "_").rpartition("_")[2] in SECRET and bool(value)
        differs = name not in defaults or value != defaults[name]
        yield {
            "name": name,
            "value": "hidden" if hidden else value,
            "default": defaults.get(name),
            "differs": differs,
            "origin": origins.get(name, "given" if differs else "default"),
            "text": texts.get(name, ""),
        }


def checkpoints(home: Path) -> list[dict[str, Any]]:
    """Whole ones, the newest first, then the best one."""
    folders = sorted((home / "checkpoints").glob("[0-9]*"), reverse=True)
    return [found for folder in [*folders, home / "best"] if (found := _checkpoint(folder))]


def _checkpoint(folder: Path) -> dict[str, Any] | None:
    try:
        state = json.loads((folder / "state.json").read_bytes())
        size = sum(file.stat().st_size for file in folder.iterdir())
        written = (folder / "state.json").stat().st_mtime
    except (OSError, ValueError):
        return None
    path = str(folder)
    return {
        "name": folder.name,
        "rounds": state.get("rounds") if isinstance(state, dict) else None,
        "bytes": size,
        "time": written,
        "uses": {
            "measure it": f"swarm-node eval {shlex.quote(path)}",
            "train from it": f"swarm-node run --model.name {shlex.quote(path)} --home NEW_FOLDER",
            "load it": f"AutoModelForCausalLM.from_pretrained({path!r})",
        },
    }
