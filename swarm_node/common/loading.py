"""Loads an object by its place: MODULE, MODULE:NAME, FILE.py or FILE.py:NAME.

The scoring process imports this file, so this file imports little.
"""

import gc
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def load(target: str) -> Any:
    """The module, or the object of that name in it. Raises whatever its import raises, and
    AttributeError.
    """
    where, _, name = target.partition(":")
    found: Any = _from_file(where) if where.endswith(".py") else importlib.import_module(where)
    for part in name.split(".") if name else ():
        found = getattr(found, part)
    return found


def absolute(target: str) -> str:
    """Returns the place of an object for a process in another folder: a file, also one after
    PLACE?, gets its absolute path, and any other place stays as it is.
    """
    place, asked, named = target.rpartition("?")
    where, colon, name = named.partition(":")
    if not where.endswith(".py"):
        return target
    return f"{place}{asked}{os.path.abspath(where)}{colon}{name}"


@contextmanager
def quickly() -> Iterator[None]:
    """No garbage collection while torch and transformers are imported. They make 700,000 objects
    and no garbage, and Python would search for garbage a thousand times.
    """
    searching = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if searching:
            gc.enable()


def _from_file(path: str) -> Any:
    name = f"swarm_node_file_{Path(path).stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"no file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module
