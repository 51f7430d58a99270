"""An observer that uploads the model of a running node to the hub, beside training. What fails is a warning."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from swarm_node.common.errors import UserError, printable
from swarm_node.extensions.hub.settings import PushConfig
from swarm_node.settings import Section, section_of
from swarm_node.telemetry.events import (
    CheckpointSaved,
    CheckpointWanted,
    Event,
    Notice,
    RoundDone,
    RunFinished,
    Telemetry,
    Warned,
)

LINE_CHARS = 400  # of what the hub's library says
CHECKPOINTS = "checkpoints"  # folder in the home; those of the best validation are in another one


def pushing(home: Path, config: Section, telemetry: Telemetry) -> "Pushing | None":
    """None where the option is off, and for commands that train nothing. UserError without a repository."""
    options = section_of(config, PushConfig)
    if not options.every:
        return None
    if not options.repo:
        raise UserError("push.every needs a repository: set push.repo to NAME/MODEL")
    return Pushing(home, options, telemetry.emit)


class Pushing:
    """Asks for a checkpoint every `push.every` rounds and uploads it. One upload goes on at a time; a checkpoint that
    is saved during one is not uploaded."""

    def __init__(self, home: Path, config: PushConfig, emit: Callable[[Event], None]) -> None:
        self._home, self._config, self._emit = home, config, emit
        self._due = 0  # rounds after which a checkpoint is to be uploaded, once it is saved
        self._thread = ThreadPoolExecutor(1, "push")
        self._going: Future[str] | None = None

    def take(self, event: Event) -> None:
        match event:
            case RoundDone(report=report) if (report.round + 1) % self._config.every == 0:
                self._due = report.round + 1
                self._emit(CheckpointWanted())
            case CheckpointSaved(round=done, path=path) if done == self._due and Path(path).parent.name == CHECKPOINTS:
                self._due = 0
                self._start(Path(path))
        self._tell(wait=isinstance(event, RunFinished))

    def close(self) -> None:
        """Lets an upload end that has begun."""
        self._thread.shutdown()

    def _start(self, checkpoint: Path) -> None:
        if self._going is None:
            from swarm_node.extensions.hub.push import push  # now, not above: it would hold up the start of a node

            self._going = self._thread.submit(push, self._home, checkpoint, self._config.repo)

    def _tell(self, wait: bool) -> None:
        """How an upload ended, once it has."""
        if self._going is None or not (wait or self._going.done()):
            return
        going, self._going = self._going, None
        error = going.exception()
        if error is None:
            self._emit(Notice(printable(f"pushed to {going.result()}", LINE_CHARS)))
        else:
            self._emit(Warned(printable(f"not pushed: {error}; training goes on", LINE_CHARS)))
