"""Running out of memory, told apart from other errors in one place, whatever the device and the library call it."""

import ctypes
import gc
import sys
from collections.abc import Callable
from typing import TypeVar

import torch

from swarm_node.common.errors import UserError

T = TypeVar("T")

M_MMAP_THRESHOLD, LARGE = -3, 8 * 2**20  # of mallopt(3); bytes
SAYINGS = ("out of memory", "allocate memory", "not enough memory", "alloc_failed")  # CUDA, torch on CPUs, cuBLAS


class OutOfMemory(UserError):
    """There is no room for this. Whoever can do with less catches it; where nobody does, the node stops in one line."""


def attempt(work: Callable[[], T], doing: str) -> T:
    """What `work` returns. OutOfMemory, where it raised what any library raises for want of memory.

    By then the error is gone, and with it the frames that held tensors: what was used is free again.

    Args:
        doing: ends the line, such as "in loading the model".
    """
    try:
        return work()
    except Exception as error:
        if not is_shortage(error):
            raise
    release()
    raise OutOfMemory(f"out of memory {doing}: `swarm-node check` says what would fit")


def probed(work: Callable[[], T], doing: str) -> T | None:
    """What `work` returns; None where it fails, in whatever way, but for want of memory, which says nothing of it."""
    try:
        return attempt(work, doing)
    except OutOfMemory:
        raise
    except Exception:  # noqa: BLE001  libraries and models refuse in ways of their own
        return None


def is_shortage(error: BaseException) -> bool:
    """Whether this error says that there is no memory left."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError, OutOfMemory)):
        return True
    return isinstance(error, RuntimeError | OSError) and any(said in str(error).lower() for said in SAYINGS)


def keep_nothing_back() -> None:
    """Large tensors on a CPU go back to the system when they are freed. glibc learns from them to keep what is below
    32 MB for later use, which was 1.4 GB after a round of a model of 0.5 B. New pages for each cost time, so this is
    for where memory is short."""
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # not every libc has it
        if mallopt is not None:
            mallopt(M_MMAP_THRESHOLD, LARGE)


def release() -> None:
    """Give back what is held for later use only."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
