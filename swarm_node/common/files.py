"""JSON files, written whole or not at all. Not for tensors or logs."""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def plain(value: Any) -> Any:
    """`value` as JSON can hold it: tuples as lists, paths as text, numbers that are not finite as null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return str(value) if isinstance(value, Path) else value


def write_json(path: Path, value: Any) -> None:
    """Readable by people; written whole or not at all, like `write_bytes`."""
    write_bytes(path, (pretty(plain(value)) + "\n").encode())


def pretty(value: Any, indent: str = "") -> str:
    """JSON with one key a line. A list of numbers stays on one line: nobody reads a curve."""
    inner = indent + "  "
    if isinstance(value, dict) and value:
        rows = [f"{inner}{json.dumps(key, ensure_ascii=False)}: {pretty(each, inner)}" for key, each in value.items()]
        return "{\n" + ",\n".join(rows) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(each, dict | list) for each in value):
        return "[\n" + ",\n".join(inner + pretty(each, inner) for each in value) + f"\n{indent}]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def write_bytes(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Writes a file beside `path` and renames it, so that a reader or a power cut sees the old file or the new one. The
    umask takes from `mode`.

    Raises OSError if the disk is full or the folder read-only, and removes the file beside it.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.unlink(missing_ok=True)  # of a process that had this number and was killed; or a link somebody put there
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
