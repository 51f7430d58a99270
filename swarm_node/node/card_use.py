"""Whether another program uses the graphics card, so that a node that is a guest makes room for it.

NVIDIA's driver says which processes hold memory of a card and how busy each of them keeps it
(NVML, https://docs.nvidia.com/deploy/nvml-api/). The extra `card` brings NVIDIA's bindings of it.
What this process and its children use does not count.

A desktop holds some hundred megabytes and now and then draws a window. So others have to use the
card beyond a threshold in two looks in a row before the node rests, and to stay below half of it
for half a minute before the node goes on: a game that loads its next level is not done.

A driver that cannot tell programs apart, as in a container with process ids of its own, in WSL2 or
on a card of another make, never lets a node rest: the node says so once.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

import psutil

from swarm_node.common.errors import UserError, printable
from swarm_node.settings.limits import LimitsConfig

LOOK_SECONDS = 2.0  # between two looks, at least
LOOKS = 2  # in a row with the card in use, before the node rests
QUIET_SECONDS = 30.0  # with the card hardly in use, before it goes on
STILL = 0.5  # of a threshold: below it the card counts as hardly in use
UNKNOWN = "the driver does not say which program uses the card: this node will not rest for others"
MISSING = (
    "limits.card pause asks NVIDIA's driver about other programs: install its bindings with "
    "pip install 'textswarm[card]', or leave limits.card at train"
)


@dataclass(frozen=True, slots=True)
class Use:
    """What one process uses of a graphics card."""

    pid: int
    megabytes: float = 0.0
    busy: float = 0.0  # share of the time in which it computed, of the last second or so
    name: str = ""  # of its program; "" where that is not known


Reader = Callable[[], Sequence[Use]]
"""All processes that use the card now. Raises OSError where the driver cannot say."""


class Nvml(Protocol):
    """What is used of the module `pynvml`."""

    NVMLError: type[Exception]

    def nvmlInit(self) -> None:
        """Opens the driver, for as long as this process lives."""

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Any:
        """The card with this name of the driver."""

    def nvmlDeviceGetComputeRunningProcesses(self, handle: Any) -> Sequence[Any]:
        """Processes that compute on this card, each with its `pid` and `usedGpuMemory` in bytes."""

    def nvmlDeviceGetGraphicsRunningProcesses(self, handle: Any) -> Sequence[Any]:
        """Processes that draw on this card, each with its `pid` and `usedGpuMemory` in bytes."""

    def nvmlDeviceGetProcessUtilization(self, handle: Any, since: int) -> Sequence[Any]:
        """Samples newer than `since` (microseconds) of how busy each `pid` kept this card."""


def family() -> frozenset[int]:
    """The process ids of this process and of all its descendants."""
    with suppress(psutil.Error):
        children = psutil.Process().children(recursive=True)
        return frozenset([os.getpid(), *(child.pid for child in children)])
    return frozenset([os.getpid()])


def program(pid: int) -> str:
    """The name of a process's program, fit to be shown; "" where the system does not say."""
    with suppress(psutil.Error, OSError):
        return printable(psutil.Process(pid).name(), 40)
    return ""


class CardWatch:
    """Says why the node should rest for the sake of another program on its card."""

    def __init__(
        self,
        config: LimitsConfig,
        read: Reader,
        clock: Callable[[], float],
        say: Callable[[str], object] = lambda text: None,
        own: Callable[[], frozenset[int]] = family,
    ) -> None:
        """`clock`: seconds, monotonic. `say` takes a warning. `own`: process ids that are this
        node's.
        """
        self._busy, self._megabytes = config.card_busy / 100, config.card_memory
        self._read, self._clock, self._say, self._own = read, clock, say, own
        self._looked = float("-inf")
        self._in_use = 0  # looks in a row in which others used the card
        self._quiet_since: float | None = None
        self._reason = ""
        self._told = False

    def __call__(self) -> str:
        """Why the node should rest; "" where it should not. It looks at the card at most every
        `LOOK_SECONDS`.
        """
        now = self._clock()
        if now - self._looked >= LOOK_SECONDS:
            self._looked = now
            self._look(now)
        return self._reason

    def _look(self, now: float) -> None:
        others = self._others()
        loudest = max(others, key=self._share, default=None)
        share = 0.0 if loudest is None else self._share(loudest)
        self._in_use = self._in_use + 1 if share >= 1.0 else 0
        if loudest is not None and self._in_use >= LOOKS:
            named = loudest.name or f"process {loudest.pid}"
            self._reason = f"{named} uses the graphics card"
        if share >= STILL:
            self._quiet_since = None
        elif self._quiet_since is None:
            self._quiet_since = now
        if self._quiet_since is not None and now - self._quiet_since >= QUIET_SECONDS:
            self._reason = ""

    def _share(self, use: Use) -> float:
        """What a process takes, in thresholds: from 1 on it uses the card. A threshold of 0 does
        not count.
        """
        busy = use.busy / self._busy if self._busy else 0.0
        memory = use.megabytes / self._megabytes if self._megabytes else 0.0
        return max(busy, memory)

    def _others(self) -> list[Use]:
        """What processes of others take. None where the driver does not name this process, whose
        model lies on the card: then it numbers processes in another way, and the others may be this
        one.
        """
        own = self._own()
        try:
            uses = self._read()
        except OSError:
            uses = []
        if not any(use.pid in own for use in uses):
            self._warn()
            return []
        return [use for use in uses if use.pid not in own]

    def _warn(self) -> None:
        if not self._told:
            self._told = True
            self._say(UNKNOWN)


class NvmlReader:
    """Reads the processes of one card from NVIDIA's driver."""

    def __init__(self, nvml: Nvml, uuid: str) -> None:
        """`uuid`: of the card. OSError where the driver does not answer."""
        self._nvml = nvml
        try:
            nvml.nvmlInit()
            self._handle = nvml.nvmlDeviceGetHandleByUUID(uuid)
        except nvml.NVMLError as error:
            raise OSError(str(error)) from error
        self._since = 0  # time of the newest sample that was read, in the driver's microseconds

    def __call__(self) -> list[Use]:
        """See `Reader`."""
        nvml = self._nvml
        try:
            listed = [
                *nvml.nvmlDeviceGetComputeRunningProcesses(self._handle),
                *nvml.nvmlDeviceGetGraphicsRunningProcesses(self._handle),
            ]
        except nvml.NVMLError as error:
            raise OSError(str(error)) from error
        # A program that computes and draws stands in both lists
        memory = {entry.pid: (entry.usedGpuMemory or 0) / 1e6 for entry in listed}
        busy = self._busy()
        return [
            Use(pid, megabytes, busy.get(pid, 0.0), program(pid))
            for pid, megabytes in memory.items()
        ]

    def _busy(self) -> dict[int, float]:
        """The share of the time that each process computed, of its newest sample since the last
        look. The driver raises where there is no new sample.
        """
        try:
            samples = self._nvml.nvmlDeviceGetProcessUtilization(self._handle, self._since)
        except self._nvml.NVMLError:
            return {}
        newest = sorted(samples, key=lambda sample: sample.timeStamp)
        if newest:
            self._since = newest[-1].timeStamp
        return {sample.pid: sample.smUtil / 100 for sample in newest}


def watch_of(
    config: LimitsConfig,
    uuid: str,
    clock: Callable[[], float],
    say: Callable[[str], object],
    nvml: Callable[[], Nvml] = lambda: import_module("pynvml"),
) -> Callable[[], str]:
    """What says why to rest for other programs on the card. `uuid`: of the card that the model is
    on; "" where it is on none that NVIDIA's driver knows. UserError where the extra is missing.
    """
    if config.card != "pause":
        return str
    if not uuid:
        say("limits.card pause does nothing here, since the model is not on a card of NVIDIA")
        return str
    try:
        module = nvml()
    except ImportError as error:
        raise UserError(MISSING) from error
    try:
        return CardWatch(config, NvmlReader(module, uuid), clock, say)
    except OSError:
        say(UNKNOWN)
        return str
