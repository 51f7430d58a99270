"""Several processes of one node, each with the whole model on a device of its own, as torchrun starts them.

Rank 0 is the node. The others do their share of what it tells them: of the prompts of a generation, of the rows of an
update. Weights of tokens already hold the normalisation over the whole update, so gradients of ranks only add up.

Torch's DistributedDataParallel would average them, and hooks into a forward that packed rows do not call. So does FSDP,
whose ranks also exchange in each forward: rows could not be dealt by length, and no rank could halve a batch alone.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import psutil
import torch
import torch.distributed as dist
from torch import Tensor, nn

from swarm_node.common.errors import UserError, first_line

T = TypeVar("T")

FOREVER = timedelta(days=365)  # a node may rest for days; a rank that ends is noticed at once by its closed connection
BUCKET = 2**23  # numbers that are added up in one message


@dataclass(frozen=True)
class JoinedRanks:
    """This process among several, each with the whole model. Weights and gradients are whole at every rank. AdamW's
    step of a weight needs nothing of the others, so where ranks share its state the step is the same."""

    rank: int
    size: int
    talk: Any = None  # the group for messages, on the CPU; gradients take the default group
    sharded: bool = False  # each rank keeps the state of its share of the weights, and steps those alone

    @property
    def state_shares(self) -> int:
        """How many ranks keep a share each of the optimiser's state; 1 where each keeps all of it."""
        return self.size if self.sharded else 1

    def share(self, count: int) -> range:
        """Which of `count` prompts, in their order, this rank generates for."""
        return range(count * self.rank // self.size, count * (self.rank + 1) // self.size)

    def dealt(self, costs: Sequence[float]) -> list[int]:
        """Which rows of an update this rank computes: all ranks have about the same cost."""
        return [index for index, owner in enumerate(self._owners(costs)) if owner == self.rank]

    def tell(self, call: str, *arguments: object) -> None:
        """Rank 0 alone, before it generates or updates, so that the others make the same call."""

    def told(self) -> Any:
        """The next message of rank 0, however long it takes: a call and its arguments."""
        return self.of_rank(0, None)

    def gather(self, value: T) -> list[T]:
        """The value of every rank, at every rank."""
        values: list[Any] = [None] * self.size
        with _together():
            dist.all_gather_object(values, value, group=self.talk)
        return values

    def kept(self, parameters: Sequence[nn.Parameter]) -> list[nn.Parameter]:
        """The weights that this rank steps: those whose state of the optimiser it keeps."""
        if not self._divides(parameters):
            return list(parameters)
        return [parameters[index] for index in self.dealt([p.numel() for p in parameters])]

    def spread(self, parameters: Sequence[nn.Parameter]) -> None:
        """After a step: every weight becomes what the rank that stepped it made of it."""
        if self._divides(parameters):
            with _together():
                for p, owner in zip(parameters, self._owners([p.numel() for p in parameters]), strict=True):
                    dist.broadcast(p.data, src=owner)

    def whole(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """The optimiser's state of all ranks, from the part of each. All ranks call it at the same time."""
        if not self.sharded:
            return state
        self.tell("optimizer_tensors")
        parts = [self.of_rank(rank, state) for rank in range(self.size)]
        return {key: tensor for part in parts for key, tensor in part.items()}

    def of_rank(self, rank: int, value: T) -> T:
        """What that rank has, at every rank."""
        box: list[Any] = [value if rank == self.rank else None]
        with _together():
            dist.broadcast_object_list(box, src=rank, group=self.talk)
        found: T = box[0]
        return found

    def add_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Every rank's gradient becomes the sum over ranks; None where no rank has one. Sums are to the bit the same
        everywhere, added in float32."""
        having = self.gather([p.grad is not None for p in parameters])
        wanted = [p for p, *flags in zip(parameters, *having, strict=True) if any(flags)]
        for p in wanted:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
        for bucket in _buckets(wanted):
            gradients = [p.grad for p in bucket if p.grad is not None]
            flat = torch.cat([gradient.flatten().float() for gradient in gradients])
            with _together():
                dist.all_reduce(flat)
            totals = torch.split(flat, [g.numel() for g in gradients])
            for gradient, total in zip(gradients, totals, strict=True):
                gradient.copy_(total.view_as(gradient))

    def _owners(self, costs: Sequence[float]) -> list[int]:
        """The rank that has each of them: the largest goes first, to the rank with the least so far."""
        loads, owners = [0.0] * self.size, [0] * len(costs)
        for index in sorted(range(len(costs)), key=lambda i: -costs[i]):
            owners[index] = loads.index(min(loads))
            loads[owners[index]] += costs[index]
        return owners

    def _divides(self, parameters: Sequence[nn.Parameter]) -> bool:
        """Whether ranks share the state, and each would have something to step."""
        return self.sharded and self.size <= len(parameters)


R = TypeVar("R", bound=JoinedRanks)


def join(kind: type[R], sharded: bool = False) -> R:
    """This process among its ranks, when all have come. UserError where they are on several machines."""
    if os.environ["WORLD_SIZE"] != os.environ["LOCAL_WORLD_SIZE"]:
        raise UserError("the ranks of a node are on one machine: start torchrun with --nnodes 1, and a node on each")
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # nobody else is to reach what unpickles
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    with _together():
        dist.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo", timeout=FOREVER)
        talk = dist.new_group(backend="gloo", timeout=FOREVER)
    return kind(dist.get_rank(), dist.get_world_size(), talk, sharded)


def when_gone(pid: int, act: Callable[[], object]) -> None:
    """Calls `act`, in a thread, when this process has ended."""

    def wait() -> None:
        with suppress(psutil.NoSuchProcess):
            psutil.Process(pid).wait()
        act()

    threading.Thread(target=wait, daemon=True).start()


def digest(tensors: Sequence[Tensor]) -> tuple[float, ...]:
    """Equal for equal weights, and hardly for others."""
    return tuple(float(t.detach().double().abs().sum()) for t in tensors)


@contextmanager
def _together() -> Iterator[None]:
    """What torch raises where another rank has ended, in one line."""
    try:
        yield
    except RuntimeError as error:
        said = first_line(error, 150)
        raise UserError(
            f"a rank of this node has ended ({said}): start again, it goes on from the last checkpoint"
        ) from error


def _buckets(parameters: Sequence[nn.Parameter]) -> Iterator[list[nn.Parameter]]:
    """In their order, each with at most `BUCKET` numbers, or one parameter that has more."""
    bucket: list[nn.Parameter] = []
    for p in parameters:
        if bucket and sum(q.numel() for q in bucket) + p.numel() > BUCKET:
            yield bucket
            bucket = []
        bucket.append(p)
    if bucket:
        yield bucket
