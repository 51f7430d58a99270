"""A running node brings its model to the hub every so many rounds, beside training. What fails is a warning."""

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from swarm_node.common.errors import UserError
from swarm_node.extensions.hub.export import newest
from swarm_node.extensions.hub.push import push
from swarm_node.settings import PushConfig


class Pushing:
    """At most one upload at a time; a checkpoint that comes during one is left to the next."""

    def __init__(self, home: Path, config: PushConfig) -> None:
        if config.every and not config.repo:
            raise UserError("push.every needs a repository: set push.repo to NAME/MODEL")
        self._home, self._config = home, config
        self._thread = ThreadPoolExecutor(1, "push")
        self._going: Future[str] | None = None

    def due(self, done: int) -> bool:
        """Whether to push after `done` rounds."""
        return bool(self._config.every) and done % self._config.every == 0

    def start(self) -> None:
        """Push the newest checkpoint, without waiting for it."""
        if self._going is None:
            config = self._config
            checkpoint = newest(self._home)
            self._going = self._thread.submit(push, self._home, checkpoint, config.repo, config.public, config.merge)

    def lines(self, wait: bool = False) -> list[tuple[str, bool]]:
        """What came of it since the last call, and whether it is a warning."""
        if self._going is None or not (wait or self._going.done()):
            return []
        going, self._going = self._going, None
        error = going.exception()
        if error is None:
            return [(f"pushed to {going.result()}", False)]
        return [(f"not pushed: {error}; training goes on", True)]

    def close(self) -> None:
        """Lets an upload end that has begun."""
        self._thread.shutdown()
