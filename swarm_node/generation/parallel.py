"""A generator that lets several processes write, each to a part of the prompts.

Which text a prompt gets does not depend on the parts. A completion draws from a row of the stream
of its round (sampling.py), rows are counted over all prompts that have room, and each part is told
at which row it begins. So the parts may be cut anywhere, and a part that a process did not deliver
can be written by another one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from swarm_node.generation.generator import TOO_LONG, BatchGenerator, Contexts, Writes
from swarm_node.rollouts.groups import Completions, Skipped, Turns


@dataclass(frozen=True, slots=True)
class SamplingRequest:
    """What one call writes to all its contexts."""

    group_size: int
    stream: str
    goes_on: bool  # whether turns may follow
    begins: bool  # whether it is the first turn


class Writers(Protocol):
    """Other processes that generate completions at the same time as this one."""

    def write(
        self, contexts: list[list[int]], request: SamplingRequest, own: Writes
    ) -> list[Completions | Skipped]:
        """The completions of each context, all of which have room. `own` writes this process's
        part, and what another process did not deliver.
        """
        ...

    def rest(self) -> None:
        """End the processes until they are needed again."""
        ...


class ParallelGenerator:
    """Implements interfaces.Generator with the generator of this process and other writers."""

    def __init__(self, generator: BatchGenerator, writers: Writers) -> None:
        self._generator, self._writers = generator, writers

    @property
    def decoder_name(self) -> str:
        return self._generator.decoder_name

    def open(self, *, goes_on: bool) -> Turns:
        """See interfaces.Generator."""
        own = self._generator.open(goes_on=goes_on)
        return Episodes(self._generator, self._writers, own, goes_on).write

    def encode_observations(self, observations: Sequence[str], last: int) -> list[int]:
        """See interfaces.Generator."""
        return self._generator.encode_observations(observations, last)

    def rest(self) -> None:
        """Frees memory as BatchGenerator does. The other processes end, and with them all that they
        hold.
        """
        self._generator.rest()
        self._writers.rest()

    def close(self) -> None:
        """See interfaces.Generator. Whoever started the writers ends them."""
        self._generator.close()


@dataclass
class Episodes:
    """Some episodes while they are written turn by turn."""

    generator: BatchGenerator
    writers: Writers
    own: Writes
    goes_on: bool
    begun: bool = False

    def write(
        self, contexts: Contexts, group_size: int, stream: str
    ) -> list[Completions | Skipped]:
        """The completions of these contexts, shared out among the processes. Skipped where a
        context has no room. `open` returns this method.
        """
        encoded, fits = self.generator.fitting(contexts)
        request = SamplingRequest(group_size, stream, self.goes_on, begins=not self.begun)
        self.begun = True
        results: list[Completions | Skipped] = [TOO_LONG] * len(encoded)
        written = self.writers.write([encoded[i] for i in fits], request, self.own)
        for i, completions in zip(fits, written, strict=True):
            results[i] = completions
        return results
