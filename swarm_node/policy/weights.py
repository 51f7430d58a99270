"""Weights in memory that two processes share: the trainer publishes a snapshot after every update,
the generator copies the newest. Neither ever sees the other's live parameters, nor a snapshot half
of which is older than the rest.

A process holds a record lock of the system while it writes or reads a snapshot, so the other
process waits for one copy at most. The lock goes away with its process, even with a killed one. A
snapshot has only trained parameters (under LoRA: the adapters), in the trainer's types.
"""

import fcntl
import mmap
import os
import struct
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from swarm_node.policy.device import finish, pin
from swarm_node.policy.policy import Policy

HEADER = 64  # bytes: the version, then room, so that tensors are aligned
ALIGNMENT = 64
NOTHING = -1  # version before the first snapshot

Layout = list[tuple[str, tuple[int, ...], str]]  # of every parameter: name, shape, type


@dataclass(frozen=True, slots=True)
class SharedWeights:
    """Snapshots of one policy's trained parameters."""

    descriptor: int  # of the memory; processes that inherit it attach to it
    layout: Layout
    _memory: mmap.mmap
    _tensors: dict[str, Tensor]  # views of the memory
    # Whether it could be pinned, once that was tried
    _pinned: list[bool] = field(default_factory=list)

    @classmethod
    def create(cls, policy: Policy) -> "SharedWeights":
        """Empty memory for the trained parameters of `policy`. It is gone when the last process has
        closed it.
        """
        layout = [
            (name, tuple(p.shape), str(p.dtype).removeprefix("torch."))
            for name, p in _trained(policy).items()
        ]
        descriptor = _anonymous_file()
        os.ftruncate(descriptor, _places(layout)[-1])
        weights = cls.attach(descriptor, layout)
        weights._set_version(NOTHING)
        return weights

    @classmethod
    def attach(cls, descriptor: int, layout: Sequence[Sequence[object]]) -> "SharedWeights":
        """The memory behind an inherited descriptor; `layout` is that of its creator, as it comes
        out of JSON.
        """
        known: Layout = [(str(n), tuple(int(d) for d in s), str(t)) for n, s, t in layout]  # type: ignore[attr-defined]
        places = _places(known)
        memory = mmap.mmap(descriptor, places[-1])
        tensors = {}
        for (name, shape, kind), place in zip(known, places, strict=False):
            dtype = getattr(torch, kind)
            count = torch.Size(shape).numel()
            tensors[name] = torch.frombuffer(memory, dtype=dtype, count=count, offset=place).view(
                shape
            )
        return cls(descriptor, known, memory, tensors)

    def publish(self, policy: Policy) -> None:
        """Make the policy's present weights, and their version, what `take` finds."""
        parameters = _trained(policy)
        with self._locked(fcntl.LOCK_EX):
            self._set_version(NOTHING)
            self._pin(policy.device)
            for name, shared in self._tensors.items():
                shared.copy_(parameters[name].detach(), non_blocking=True)
            finish(policy.device)  # once for all of them
            self._set_version(policy.version)

    def take(self, policy: Policy) -> bool:
        """Copy the newest snapshot into `policy`, unless that is its version. Returns whether it
        was copied.
        """
        with self._locked(fcntl.LOCK_SH):
            version = self.version
            if version in (NOTHING, policy.version):
                return False
            parameters = _trained(policy)
            with torch.no_grad():
                self._pin(policy.device)
                for name, shared in self._tensors.items():
                    parameters[name].copy_(shared, non_blocking=True)
                finish(policy.device)  # before the next snapshot may be written
        policy.version = version
        return True

    def close(self) -> None:
        """Let go of the memory; other processes keep theirs."""
        self._tensors.clear()
        os.close(self.descriptor)

    def _pin(self, device: torch.device) -> None:
        """Pins the memory once, if there is a GPU to copy to or from."""
        if device.type == "cuda" and not self._pinned:
            self._pinned.append(pin(torch.frombuffer(self._memory, dtype=torch.uint8)))

    @property
    def version(self) -> int:
        return int(struct.unpack_from("<q", self._memory)[0])

    def _set_version(self, version: int) -> None:
        struct.pack_into("<q", self._memory, 0, version)

    @contextmanager
    def _locked(self, kind: int) -> Iterator[None]:
        fcntl.lockf(self.descriptor, kind)
        try:
            yield
        finally:
            fcntl.lockf(self.descriptor, fcntl.LOCK_UN)


def _trained(policy: Policy) -> dict[str, Tensor]:
    return {name: p for name, p in policy.model.named_parameters() if p.requires_grad}


def _places(layout: Layout) -> list[int]:
    """The byte where each parameter begins, and the size of the whole."""
    places = [HEADER]
    for _, shape, kind in layout:
        size = torch.Size(shape).numel() * getattr(torch, kind).itemsize
        places.append(-(-(places[-1] + size) // ALIGNMENT) * ALIGNMENT)
    return places


def _anonymous_file() -> int:
    """Memory without a name: nothing is left over after a kill, and a container's /dev/shm does not
    limit it.
    """
    if hasattr(os, "memfd_create"):
        return os.memfd_create("swarm-node-weights")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
