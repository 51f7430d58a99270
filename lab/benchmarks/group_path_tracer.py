"""Reports which files a marked text passes. It lies in an interpreter's site-packages, with a JSON
file beside it.

Every process of the node loads this module at its start. Sandboxed children have no socket, so
tracing stops in them.
"""

import json
import sys
import threading
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

_FACTS = json.loads(Path(__file__).with_suffix(".json").read_text())
_ROOT: str = _FACTS["root"] + "/"
_MARK: str = _FACTS["mark"]
_BYTES = (_MARK.encode(), json.dumps(_MARK)[1:-1].encode())  # as UTF-8, and as JSON in ASCII
_DEPTH = 8

DONE = "trained"

_seen: set[str] = set()
_updating = 0  # id of the thread in which the trainer updates on marked groups; 0 for none


def carries(value: Any, depth: int = _DEPTH) -> bool:
    """Whether the mark is in this value, or in the plain data it is made of."""
    if isinstance(value, str):
        return _MARK in value
    if isinstance(value, bytes | bytearray):
        return any(mark in value for mark in _BYTES)
    if depth == 0 or isinstance(value, type):  # of a class the fields are no values
        return False
    if isinstance(value, list | tuple):
        return any(carries(each, depth - 1) for each in islice(value, 64))
    if isinstance(value, Mapping):
        return any(carries(each, depth - 1) for each in list(value.values())[:64])
    names = [entry.name for entry in fields(value)] if is_dataclass(value) else ()
    names = names or list(
        getattr(type(value), "model_fields", getattr(type(value), "__struct_fields__", ()))
    )
    return any(carries(getattr(value, name, None), depth - 1) for name in names)


def _say(file: str) -> None:
    import socket

    _seen.add(file)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as speaker:
        speaker.sendto(file.encode(), _FACTS["socket"])


def _profile(frame: FrameType, event: str, value: Any) -> None:
    global _updating
    file = frame.f_code.co_filename
    if event not in ("call", "return") or not file.startswith(_ROOT) or "/site-packages/" in file:
        return
    name = frame.f_code.co_name
    if name == "enter" and file.endswith("sandbox.py"):  # from here on this child has no socket
        sys.setprofile(None)
        return
    here = threading.get_ident()
    update = name == "update" and file.endswith("trainer.py")
    if update and event == "return" and _updating == here:  # the path of a group ends here
        threading.setprofile(None)
        sys.setprofile(None)
        _say(DONE)
        return
    if file in _seen and not update:
        return
    if event == "call":
        code = frame.f_code
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        marked = any(
            carries(frame.f_locals.get(name)) for name in names if name not in ("self", "cls")
        )
        _updating = here if update and marked else _updating
    else:
        marked = carries(value)
    if (marked or _updating == here) and file not in _seen:
        sys.setprofile(None)
        _say(file)
        sys.setprofile(_profile)


threading.setprofile(_profile)
sys.setprofile(_profile)
