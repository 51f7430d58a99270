"""Several processes of one node, each with the whole model on a device of its own, as torchrun starts them.

Rank 0 is the node. The others do their share of what it tells them: of the prompts of a generation, of the rows of an
update. Weights of tokens already hold the normalisation over the whole update, so gradients of ranks only add up.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import psutil
import torch
import torch.distributed as dist
from torch import Tensor, nn

from swarm_node.common.errors import UserError
from swarm_node.extensions.gpus.torchrun import is_rank

T = TypeVar("T")

FOREVER = timedelta(days=365)  # a node may rest for days; a rank that ends is noticed at once by its closed connection
BUCKET = 2**23  # numbers that are added up in one message


@dataclass(frozen=True, slots=True)
class Ranks:
    """This process among those of its node. Alone, nothing is sent, and every share is the whole."""

    rank: int = 0
    size: int = 1
    talk: Any = None  # the group for messages, on the CPU; gradients take the default group

    def share(self, count: int) -> range:
        """Which of `count` things, in their order, are this rank's."""
        return range(count * self.rank // self.size, count * (self.rank + 1) // self.size)

    def dealt(self, costs: Sequence[float]) -> list[int]:
        """Which of these are this rank's, where all ranks are to have about the same cost."""
        return [index for index, owner in enumerate(self.owners(costs)) if owner == self.rank]

    def owners(self, costs: Sequence[float]) -> list[int]:
        """The rank that has each of them: the largest goes first, to the rank with the least so far."""
        loads, owners = [0.0] * self.size, [0] * len(costs)
        for index in sorted(range(len(costs)), key=lambda i: -costs[i]):
            owners[index] = loads.index(min(loads))
            loads[owners[index]] += costs[index]
        return owners

    def tell(self, message: object) -> None:
        """From rank 0 to the others, which wait in `told`. Both pickle: they are one program on one machine."""
        if self.size > 1:
            with _together():
                dist.broadcast_object_list([message], src=0, group=self.talk)

    def told(self) -> Any:
        """The next message of rank 0, however long it takes."""
        box: list[Any] = [None]
        with _together():
            dist.broadcast_object_list(box, src=0, group=self.talk)
        return box[0]

    def gather(self, value: T) -> list[T]:
        """The value of every rank, at every rank."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        with _together():
            dist.all_gather_object(values, value, group=self.talk)
        return values

    def of_rank(self, rank: int, value: T) -> T:
        """What that rank has, at every rank."""
        if self.size == 1:
            return value
        box: list[Any] = [value if rank == self.rank else None]
        with _together():
            dist.broadcast_object_list(box, src=rank, group=self.talk)
        found: T = box[0]
        return found

    def spread(self, parameters: Sequence[nn.Parameter], owners: Sequence[int]) -> None:
        """Every parameter becomes what its owner has."""
        if self.size > 1:
            with _together():
                for p, owner in zip(parameters, owners, strict=True):
                    dist.broadcast(p.data, src=owner)

    def add_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Every rank's gradient becomes the sum over ranks: to the bit the same everywhere, added in float32. None
        where no rank has one."""
        if self.size == 1:
            return
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


ALONE = Ranks()


def join(environment: Mapping[str, str] = os.environ) -> Ranks:
    """This process among its ranks, when all have come; `ALONE` where torchrun started none. UserError where they are
    on several machines."""
    if not is_rank(environment):
        return ALONE
    if environment["WORLD_SIZE"] != environment["LOCAL_WORLD_SIZE"]:
        raise UserError("the ranks of a node are on one machine: start torchrun with --nnodes 1, and a node on each")
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # nobody else is to reach what unpickles
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(int(environment["LOCAL_RANK"]))
    with _together():
        dist.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo", timeout=FOREVER)
        talk = dist.new_group(backend="gloo", timeout=FOREVER)
    return Ranks(dist.get_rank(), dist.get_world_size(), talk)


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
        said = (str(error).strip() or type(error).__name__).splitlines()[0][:150]
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
