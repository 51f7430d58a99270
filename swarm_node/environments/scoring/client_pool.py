"""Several judge processes behind the interface of one, for scorers that cost time: groups are judged side by side.

Each group has exactly one reply, at its own place, whichever process gave it. A group whose judge was found dead is
asked once more of a fresh one: a judge that somebody killed loses nothing, a group that kills its judge does so twice
and is skipped. A process that died is replaced at the next question, by its client.
"""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from swarm_node.environments.scoring import contract
from swarm_node.environments.scoring.client import Item, Reply, ScoringClient
from swarm_node.rollouts.groups import Skipped

DEAD = Skipped(contract.CRASHED)


class ScoringPool:
    """Asks as many judges as there are workers. Any thread may ask."""

    def __init__(self, make: Callable[[], ScoringClient], workers: int) -> None:
        self._clients = [make() for _ in range(workers)]
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="judge") if workers > 1 else None

    def prepare(self) -> None:
        """Start the processes without waiting for them. Raises ScoringUnavailable."""
        for client in self._clients:
            client.prepare()

    def ask(self, items: Sequence[Item]) -> list[Reply]:
        """One reply per item, in order. Raises ScoringUnavailable only."""
        replies = self._ask(items)
        again = [place for place, reply in enumerate(replies) if reply == DEAD]
        for place, reply in zip(again, self._ask([items[place] for place in again]), strict=True):
            replies[place] = reply
        return replies

    @property
    def restarts(self) -> int:
        return sum(client.restarts for client in self._clients)

    @property
    def pid(self) -> int | None:
        """Of one of the running judges."""
        return next((client.pid for client in self._clients if client.pid is not None), None)

    @property
    def layers(self) -> dict[str, bool]:
        return next((client.layers for client in self._clients if client.layers), {})

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown()
        for client in self._clients:
            client.close()

    def _ask(self, items: Sequence[Item]) -> list[Reply]:
        if self._threads is None or len(items) < 2:
            return self._clients[0].ask(items)
        waiting = deque(enumerate(items))
        replies: dict[int, Reply] = {}

        def work(client: ScoringClient) -> None:
            while True:
                try:
                    place, item = waiting.popleft()  # one at a time: one slow group holds up nobody else's
                except IndexError:
                    return
                replies[place] = client.ask([item])[0]

        for done in [self._threads.submit(work, client) for client in self._clients]:
            done.result()
        return [replies[place] for place in range(len(items))]
