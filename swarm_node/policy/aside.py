"""Gives a card's memory back while a node rests: what it holds waits in memory of the host.

The tensors stay the same objects, so the optimiser and whatever else refers to a weight need not
know. What only saves time, as a decoder between two rounds, is let go of and made again. A process
that has used a card keeps some hundred megabytes of the driver's until it ends.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from swarm_node.policy.device import OutOfMemory, attempt, release

HOST = torch.device("cpu")


def tensors_of(model: Any) -> Iterator[Tensor]:
    """The parameters of a model with their gradients, and its buffers; tied ones once."""
    for parameter in model.parameters():
        yield parameter
        if parameter.grad is not None:
            yield parameter.grad
    yield from model.buffers()


def state_of(optimizer: torch.optim.Optimizer) -> Iterator[Tensor]:
    """The tensors in an optimiser's state."""
    for values in optimizer.state.values():
        yield from (value for value in values.values() if isinstance(value, Tensor))


class Aside:
    """Moves what a node holds on a card to the host, and back to where it was."""

    def __init__(
        self,
        held: Callable[[], Iterable[Tensor]],
        let_go: Callable[[], object] = lambda: None,
    ) -> None:
        """`held`: all tensors that may lie on a card. `let_go` forgets what can be made again."""
        self._held, self._let_go = held, let_go
        self._moved: list[tuple[Tensor, torch.device]] = []

    def leave(self) -> None:
        """Moves all tensors to the host, and gives the memory back to the card."""
        self._let_go()
        for tensor in self._held():
            if tensor.device != HOST:
                self._moved.append((tensor, tensor.device))
                put(tensor, HOST)
        release()

    def come_back(self) -> bool:
        """Moves them back. Where the card has no room, all stay on the host, and it returns
        False.
        """
        try:
            attempt(self._return, "in returning to the card")
        except OutOfMemory:
            for tensor, _ in self._moved:
                put(tensor, HOST)
            release()
            return False
        self._moved.clear()
        return True

    def _return(self) -> None:
        for tensor, device in self._moved:
            put(tensor, device)


def put(tensor: Tensor, device: torch.device) -> None:
    """Moves the numbers of a tensor; whatever refers to it sees it there."""
    tensor.data = tensor.data.to(device)
