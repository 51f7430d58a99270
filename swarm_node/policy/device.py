"""Memory of the device and copies to it: shortages of any library as one error, queued copies, a
bound for a GPU.

`attempt` turns what libraries raise for want of memory into `OutOfMemory`. While tokens are
generated, `on_host` is the only function that waits for a GPU.
"""

import ctypes
import gc
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import torch
from torch import Tensor

from swarm_node.common.errors import UserError

T = TypeVar("T")

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of mallopt(3)
# CUDA, torch on CPUs, cuBLAS
SAYINGS = ("out of memory", "allocate memory", "not enough memory", "alloc_failed")


class OutOfMemory(UserError):
    """Memory ran out. A caller that can do with less catches this error; otherwise it stops the
    node with one line.
    """


def attempt(work: Callable[[], T], doing: str) -> T:
    """What `work` returns. Raises OutOfMemory if `work` failed for want of memory, in any library.

    The library's error is dropped first, and with it the frames that held tensors: their memory is
    free again.

    Args:
        doing: ends the message, such as "in loading the model".
    """
    try:
        return work()
    except Exception as error:
        if not is_shortage(error):
            raise
    release()
    raise OutOfMemory(f"out of memory {doing}: `swarm-node check` says what would fit")


def probed(work: Callable[[], T], doing: str) -> T | None:
    """What `work` returns; None if it fails. A lack of memory says nothing about `work`, and raises
    OutOfMemory.
    """
    try:
        return attempt(work, doing)
    except OutOfMemory:
        raise
    except Exception:  # noqa: BLE001  libraries and models refuse in ways of their own
        return None


def is_shortage(error: BaseException) -> bool:
    """Whether this error, or one that it came in the place of, says that there is no memory left.

    Where memory runs out while a CUDA graph is recorded, the recording cannot be ended, and its own
    error ("operation failed due to a previous error during capture") is the one that is raised.
    """
    if isinstance(error, (MemoryError, torch.OutOfMemoryError, OutOfMemory)):
        return True
    if isinstance(error, RuntimeError | OSError) and any(
        said in str(error).lower() for said in SAYINGS
    ):
        return True
    before = error.__cause__ or error.__context__
    return before is not None and is_shortage(before)


def keep_freed(plenty: bool) -> None:
    """From now on, freed tensors on a CPU stay with this process for later ones, if there is
    `plenty` of memory; else large ones go back to the system. By glibc's own rule each token and
    micro-batch takes new pages, which costs 6 to 15 % of a round; where memory is short, that rule
    keeps 1.4 GB after a round of a model of 0.5 B.
    """
    for limit, most in ((M_TRIM_THRESHOLD, -1), (M_MMAP_THRESHOLD, 2**30)):  # -1: never
        _ask_libc("mallopt", limit, most if plenty else 2**20)


def trim() -> None:
    """Gives small freed tensors on a CPU back to the system, too. glibc keeps those that lie below
    memory in use.
    """
    _ask_libc("malloc_trim", 0)


def _ask_libc(name: str, *arguments: int) -> None:
    # Not every libc has it
    if sys.platform == "linux" and (asked := getattr(ctypes.CDLL(None), name, None)):
        asked(*arguments)


def release() -> None:
    """Gives back memory that is only held for later use."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def limit_gpu_memory(megabytes: int, device: str) -> None:
    """Bounds the GPU memory that this process may take: what goes beyond it is handled as memory
    that ran out.

    Args:
        megabytes: 0 sets no limit, and without a GPU there is nothing to limit. UserError for more
            than there is.
    """
    if not megabytes or not torch.cuda.is_available() or device.startswith("cpu"):
        return
    named = torch.device(device).index if device.startswith("cuda") else None
    index = torch.cuda.current_device() if named is None else named
    total = torch.cuda.get_device_properties(index).total_memory
    if megabytes * 1_000_000 > total:
        raise UserError(
            f"--limits.memory {megabytes}: this GPU has {total / 1e6:.0f} megabytes; give less"
        )
    torch.cuda.set_per_process_memory_fraction(megabytes * 1_000_000 / total, index)


def to_device(values: Sequence[Any] | Tensor, device: torch.device) -> Tensor:
    """A tensor of these values. To a GPU the copy is queued, not waited for."""
    tensor = values if isinstance(values, Tensor) else torch.tensor(values)
    if device.type != "cuda" or tensor.device.type != "cpu":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def on_host(tensor: Tensor) -> Tensor:
    """The values, on the CPU: waits until a device has computed them. While tokens are generated
    nothing else does.
    """
    return tensor.cpu()


def pin(memory: Tensor) -> bool:
    """Lock shared memory into place, so that a GPU reads and writes it by itself. Returns whether
    that worked: without it copies are right, but slower.
    """
    size = memory.numel() * memory.element_size()
    code = int(torch.cuda.cudart().cudaHostRegister(memory.data_ptr(), size, 0))  # type: ignore[no-untyped-call]
    if code:
        _forget_error()
    return code == 0


def _forget_error() -> None:
    """Takes the error that CUDA keeps of a call which failed: else the next kernel, which has no
    fault, raises it. torch has no function for that, but it asks for the error after each kernel.
    """
    with suppress(RuntimeError):
        torch.ones(1, device="cuda")


def finish(device: torch.device) -> None:
    """Wait for copies that were queued."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
