"""`doctor --bundle FILE`: what a developer needs to fix a fault, without private data.

The bundle has figures, versions, options, and redacted lines of ours. It has no key, address,
identity or path of this machine, nor any text of a peer. Of events, it has the figures of rounds,
and the numbers and redacted texts of those kinds that SAID names.
"""

import io
import json
import os
import zipfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from swarm_node.common.errors import UserError, reason_of
from swarm_node.common.files import open_to_read
from swarm_node.common.redaction import redacted
from swarm_node.settings import NodeConfig
from swarm_node.settings.options import flatten
from swarm_node.telemetry.jsonlines import read_jsonlines
from swarm_node.telemetry.manifest import hardware, versions

FIGURE = int | float
EVENTS = 2000  # the last ones
LOG_BYTES = 256 * 1024  # the end of a log
LOGS = ("network.log", "generator.log")
SAID = ("RunStarted", "Notice", "Warned", "RunFinished", "CheckpointSaved", "Validated")
UNSAID = {"environment.system", "generation.stop", "attack.payload"}  # texts of the user


def write_bundle(
    file: Path, config: NodeConfig, answer: Mapping[str, Any] | None, lines: Sequence[str]
) -> list[str]:
    """Writes the bundle to `file`, and returns the names in it. `answer`: what the running node
    says; `lines`: what the doctor found. UserError where the file cannot be written.
    """
    home = config.home.expanduser()
    clean = _Clean(config)
    events = [json.dumps(event) + "\n" for event in _events(home, clean)]
    logs = {name: clean(_tail(home / name)) for name in LOGS}
    parts = {
        "doctor.txt": clean("\n".join(lines)) + "\n",
        "versions.json": _json({"versions": versions(), "hardware": hardware()}),
        "options.json": _json(_options(config, clean)),
        "status.json": _json(_status(answer or {})),
        "files.json": _json(_files(home)),
        "events.jsonl": "".join(events),
        **logs,
    }
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "wb") as out:
            out.write(content.getvalue())
    except FileExistsError as error:
        raise UserError(f"{file} exists: remove it, or choose another name") from error
    except OSError as error:
        raise UserError(
            f"{file}: {reason_of(error)}; choose another --bundle, in a folder that you can write"
        ) from error
    return list(parts)


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, default=str) + "\n"


class _Clean:
    """Makes text fit for strangers: redacts it, and cuts each path of the configuration to its last
    name, since redaction may miss a relative path, or one with spaces. The user's folder becomes ~,
    and the current one a dot.
    """

    def __init__(self, config: NodeConfig) -> None:
        shown = dict[str, str]()
        for name in _paths(config.model_dump()):
            shown[name] = shown[_whole(name)] = Path(name).name
        shown |= {str(Path.home()): "~", str(Path.cwd()): "."}
        several = [place for place in shown if len(Path(place).parts) > 1]
        longest_first = sorted(several, key=len, reverse=True)
        self._shown = [(place, shown[place]) for place in longest_first]

    def __call__(self, text: str) -> str:
        for place, shown in self._shown:
            text = text.replace(place, shown)
        return redacted(text)


def _whole(name: str) -> str:
    return str(Path(name).expanduser().absolute())


def _paths(values: Mapping[str, Any]) -> Iterator[str]:
    """Options that are paths, and texts that name a file or folder on this machine."""
    for value in values.values():
        if isinstance(value, Mapping):
            yield from _paths(value)
            continue
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, Path) or (isinstance(each, str) and _is_here(each)):
                yield str(each)


def _is_here(text: str) -> bool:
    """Whether the text names a file or folder here, also as a plug-in, FILE:NAME."""
    try:
        candidates = filter(None, (text, text.rpartition(":")[0]))
        return any(Path(candidate).expanduser().exists() for candidate in candidates)
    except (OSError, ValueError, RuntimeError):
        # Too long, with a zero byte, or ~ of an unknown user
        return False


def _options(config: NodeConfig, clean: Callable[[str], str]) -> dict[str, Any]:
    values = flatten(config.model_dump(mode="json"))
    return {key: _plain(value, clean) for key, value in values.items() if key not in UNSAID}


def _plain(value: Any, clean: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [_plain(element, clean) for element in value]
    return value


def _status(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Figures of the running node: of peers only how many are in which state."""
    network = answer.get("network", {})
    states: dict[str, int] = {}
    for peer in network.get("peers", ()):
        state = str(peer.get("state"))
        states[state] = states.get(state, 0) + 1
    kept = (
        "enabled",
        "running",
        "processes",
        "protocol",
        "backend",
        "uptime",
        "restarts",
        "reachability",
    )
    counts = ("connected", "relayed", "dropped", "counters")
    training = answer.get("training", {})
    figures = {key: part for key, part in training.items() if isinstance(part, FIGURE | Mapping)}
    of_network = {key: network[key] for key in (*kept, *counts) if key in network}
    return {"training": figures, "network": of_network | {"peer_states": states}}


def _events(home: Path, clean: Callable[[str], str]) -> list[dict[str, Any]]:
    """The last EVENTS events: of a round its figures, of lines for the user the redacted text."""
    try:
        last = deque(read_jsonlines(home / "events.jsonl"), EVENTS)
    except OSError:
        return []
    return [plain for event in last if (plain := _event(event, clean))]


def _event(event: Mapping[str, Any], clean: Callable[[str], str]) -> dict[str, Any]:
    kind, time = event.get("event"), event.get("time")
    if kind == "RoundDone":
        report = event.get("report")
        report = report if isinstance(report, Mapping) else {}
        figures = {key: part for key, part in report.items() if isinstance(part, FIGURE)}
        tables = {key: report[key] for key in ("seconds", "step", "rejected") if key in report}
        return {"time": time, "event": kind, **figures, **tables}
    if kind in SAID:
        apart = ("time", "event", "folder")
        fields = {key: part for key, part in event.items() if key not in apart}
        texts = {key: clean(text) for key, text in fields.items() if isinstance(text, str)}
        numbers = {key: part for key, part in fields.items() if isinstance(part, FIGURE)}
        return {"time": time, "event": kind, **numbers, **texts}
    return {}


def _files(home: Path) -> dict[str, Any]:
    """Names in the home, with size and mode, but without content."""
    found = {}
    for path in sorted(home.rglob("*"))[:1000]:
        status = path.lstat()
        name = path.relative_to(home).as_posix()
        found[name] = {"bytes": status.st_size, "mode": f"{status.st_mode & 0o777:03o}"}
    return found


def _tail(path: Path) -> str:
    try:
        with open_to_read(path, follow=False) as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - LOG_BYTES))
            return file.read(LOG_BYTES).decode(errors="replace")
    except OSError:
        return ""
