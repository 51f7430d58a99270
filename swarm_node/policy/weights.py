"""Weights in memory that two processes share: the trainer publishes a snapshot after every update,
the generator copies the newest. Neither ever sees the other's live parameters, nor a snapshot half
of which is older than the rest.

A process holds a record lock of the system while it writes or reads a snapshot, so the other
process waits for one copy at most. The lock goes away with its process, even with a killed one. A
snapshot has only trained parameters (under LoRA: the adapters), in the trainer's types.

Gradients go the other way in the same form: a worker of several (node/parallel.py) writes those of
its groups, and the trainer adds them to its own. Here a message says when they are whole, so there
is no lock.
"""

import fcntl
import hashlib
import mmap
import os
import struct
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Self

import torch
from torch import Tensor

from swarm_node.policy.device import finish, pin
from swarm_node.policy.policy import Policy

HEADER = 64  # bytes: the version, then room, so that tensors are aligned
ALIGNMENT = 64
NOTHING = -1  # version before the first snapshot

Layout = list[tuple[str, tuple[int, ...], str]]  # of every parameter: name, shape, type


# The whole number of each size, to read the bits of a number as
WHOLE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True, slots=True)
class SharedTensors:
    """Memory of two processes with room for a tensor of each trained parameter of one policy."""

    descriptor: int  # of the memory; processes that inherit it attach to it
    layout: Layout
    _memory: mmap.mmap
    _tensors: dict[str, Tensor]  # views of the memory
    # Whether it could be pinned, once that was tried
    _pinned: list[bool] = field(default_factory=list)

    @classmethod
    def create(cls, policy: Policy) -> Self:
        """Empty memory for the trained parameters of `policy`. It is gone when the last process has
        closed it.
        """
        layout = [
            (name, tuple(p.shape), str(p.dtype).removeprefix("torch."))
            for name, p in _trained(policy).items()
        ]
        descriptor = _anonymous_file()
        os.ftruncate(descriptor, _places(layout)[-1])
        shared = cls.attach(descriptor, layout)
        struct.pack_into("<q", shared._memory, 0, NOTHING)
        return shared

    @classmethod
    def attach(cls, descriptor: int, layout: Sequence[Sequence[object]]) -> Self:
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

    def close(self) -> None:
        """Let go of the memory; other processes keep theirs."""
        self._tensors.clear()
        os.close(self.descriptor)

    def _pin(self, device: torch.device) -> None:
        """Pins the memory once, if there is a GPU to copy to or from."""
        if device.type == "cuda" and not self._pinned:
            self._pinned.append(pin(torch.frombuffer(self._memory, dtype=torch.uint8)))


class SharedGradients(SharedTensors):
    """The gradients of one worker's groups."""

    __slots__ = ()

    def put(self, policy: Policy) -> list[str]:
        """Writes the gradients of the policy's parameters. Returns the names of the parameters that
        have none: AdamW leaves those as they are, and a gradient of zero would not.
        """
        parameters = _trained(policy)
        self._pin(policy.device)
        for name, shared in self._tensors.items():
            gradient = parameters[name].grad
            if gradient is not None:
                shared.copy_(gradient, non_blocking=True)
        finish(policy.device)
        return [name for name, parameter in parameters.items() if parameter.grad is None]

    def add_to(self, policy: Policy, without: Collection[str]) -> None:
        """Adds them to the gradients of `policy`. `without`: the names of parameters that have
        none.
        """
        parameters = _trained(policy)
        self._pin(policy.device)
        for name in self._tensors.keys() - set(without):
            parameter = parameters[name]
            gradient = self._tensors[name].to(policy.device, non_blocking=True)
            if parameter.grad is None:
                parameter.grad = gradient.clone()
            else:
                parameter.grad += gradient
        finish(policy.device)  # before the worker may write the next ones


class SharedWeights(SharedTensors):
    """Snapshots of one policy's trained parameters."""

    __slots__ = ()

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

    def take(self, policy: Policy, *, again: bool = False) -> bool:
        """Copy the newest snapshot into `policy`, unless that is its version. Returns whether it
        was copied. `again`: also where it is, since between the steps of one update weights change
        and their version does not.
        """
        with self._locked(fcntl.LOCK_SH):
            version = self.version
            if version == NOTHING or (version == policy.version and not again):
                return False
            parameters = _trained(policy)
            with torch.no_grad():
                self._pin(policy.device)
                for name, shared in self._tensors.items():
                    parameters[name].copy_(shared, non_blocking=True)
                finish(policy.device)  # before the next snapshot may be written
        policy.version = version
        return True

    def fingerprint(self) -> str:
        """See `fingerprint`: of the newest snapshot."""
        with self._locked(fcntl.LOCK_SH):
            return fingerprint(self._tensors.values())

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


def fingerprint(tensors: Iterable[Tensor]) -> str:
    """The same text for tensors whose numbers have the same bits, whatever device they are on, and
    another one where a number differs. It finds faults and differences, not forgeries.
    """
    digest = hashlib.sha256()
    for tensor in tensors:
        whole = tensor.detach().contiguous().view(WHOLE[tensor.element_size()])
        digest.update(f"{tuple(tensor.shape)} {int(whole.sum(dtype=torch.int64))}\n".encode())
    return digest.hexdigest()


def trained_fingerprint(policy: Policy) -> str:
    """See `fingerprint`: of the parameters that are trained, in the order of a snapshot."""
    return fingerprint(_trained(policy).values())


def frozen_fingerprint(policy: Policy) -> str:
    """See `fingerprint`: of the parameters that no step changes."""
    return fingerprint(p for p in policy.model.parameters() if not p.requires_grad)


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
