"""Which tasks a swarm works on, for a node that trains nothing: a few groups a minute are fetched and looked at."""

import asyncio
from collections import Counter, deque

from protocol.messages import PeerId
from swarm_node.network.actions import Deliver, Refuse
from swarm_node.network.process.service import NetworkService

EVERY = 15.0  # seconds between two groups
MOST = 240  # groups that count: those of an hour
AUTHORS = 2  # that name a task before its name is shown: whoever lies about it shows strangers what it likes
OTHERS = "named by one node alone"


class SampledTasks:
    """Counts the last groups by task. Their completions are not kept, and nobody can fetch them here."""

    def __init__(self) -> None:
        self._last: deque[tuple[PeerId, str]] = deque(maxlen=MOST)

    def take(self, action: Deliver | Refuse) -> None:
        """Of `NetworkService.deliver`: a genuine group, whose author signed its task."""
        if isinstance(action, Deliver):
            question = action.group.question
            self._last.append((action.group.author, f"{question.dataset}/{question.config_id}"))

    def counts(self) -> dict[str, int]:
        """Groups by task, the most frequent first."""
        authors: dict[str, set[PeerId]] = {}
        for author, task in self._last:
            authors.setdefault(task, set()).add(author)
        found = Counter(task if len(authors[task]) >= AUTHORS else OTHERS for _, task in self._last)
        return dict(found.most_common())

    async def keep_looking(self, service: NetworkService) -> None:
        """For ever, a group at a time."""
        while True:
            await asyncio.sleep(EVERY)
            service.look(1)
