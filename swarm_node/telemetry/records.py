"""The files in a node's home that tell of a run: manifest.json, before it starts, and events.jsonl."""

import sys
from contextlib import suppress
from pathlib import Path

from swarm_node.common.errors import UserError
from swarm_node.settings import NodeConfig
from swarm_node.settings.command_line import origins, sources_of
from swarm_node.telemetry.events import Telemetry, Warned
from swarm_node.telemetry.jsonlines import JsonLines
from swarm_node.telemetry.manifest import manifest, write_manifest

MOST_BYTES = 100_000_000  # of events.jsonl; then it is put aside as events.1.jsonl, in place of the one before


def keep_records(telemetry: Telemetry, home: Path, config: NodeConfig) -> None:
    """Write the manifest, and from now on every event. A folder that cannot be written costs only these files."""
    try:
        write_manifest(home / "manifest.json", manifest("node", config, [config.seed]) | {"origins": _origins()})
        telemetry.add(JsonLines(home / "events.jsonl", telemetry.show, most=MOST_BYTES))
    except OSError as error:
        telemetry.emit(Warned(f"{home} cannot be written: {error.strerror}; training goes on, make room there"))


def _origins() -> dict[str, str]:
    """Where options come from, by name: "file", "environment" or "flag". Empty where a program made the configuration,
    as a simulation does."""
    argv = sys.argv[2:] if sys.argv[1:2] == ["run"] else sys.argv[1:]
    with suppress(UserError, OSError):
        return origins(sources_of(NodeConfig, argv, "swarm-node run")[1])
    return {}
