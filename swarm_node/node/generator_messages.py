"""The messages between the two processes of a node: JSON lines in on stdin, JSON lines out on stdout.

In:  one `Order`, then {"generate": ROUND} for every round that may be generated.
Out: a `GeneratedMessage` for every round, in order; after a failure a `FailedMessage` as the last line.

The order's pipe stays open. When it closes, however the trainer ended, the generator ends too.
Weights go through shared memory (policy/weights.py), so lines are short: texts, token ids, log-probs, rewards.
"""

import json
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from protocol.messages import PeerId
from swarm_node.common.children import without_secrets
from swarm_node.rollouts.groups import Generated
from swarm_node.settings import LearningConfig
from swarm_node.settings.extended import with_sections
from swarm_node.settings.secret import revealed


@dataclass(frozen=True, slots=True)
class Order:
    """All that a generator process needs to generate rounds."""

    config: LearningConfig
    peer_id: PeerId
    descriptor: int  # of the shared weights
    layout: list[Any]  # of the shared weights
    tried: str = ""  # file of what works on this machine

    def line(self) -> str:
        """As one line of JSON; `read` is the inverse."""
        kind = with_sections(LearningConfig)
        config = {name: getattr(self.config, name) for name in kind.model_fields if hasattr(self.config, name)}
        plain = revealed(kind.model_construct(**config))
        rest = {"peer_id": self.peer_id, "descriptor": self.descriptor, "layout": self.layout, "tried": self.tried}
        return json.dumps({"config": plain, **rest}) + "\n"

    @classmethod
    def read(cls, line: str) -> "Order":
        fields = json.loads(line)
        config = with_sections(LearningConfig).model_validate(fields["config"])
        return cls(config, PeerId(fields["peer_id"]), fields["descriptor"], fields["layout"], fields["tried"])


@dataclass(frozen=True, slots=True)
class GeneratedMessage:
    """A round is generated."""

    generated: Generated
    idle: float  # seconds that the generator waited for the order


@dataclass(frozen=True, slots=True)
class FailedMessage:
    """The generator process failed: one line, and whether it is a mistake of the user."""

    error: str
    by_user: bool


Message = GeneratedMessage | FailedMessage
GENERATED: TypeAdapter[Generated] = TypeAdapter(Generated)
MESSAGE: TypeAdapter[Message] = TypeAdapter(Message)


def write_message(message: Message) -> str:
    """As one line of JSON."""
    return MESSAGE.dump_json(message).decode() + "\n"


def read_message(line: str) -> Message | None:
    """The message. None for a line that a dying process did not finish."""
    try:
        return MESSAGE.validate_json(line)
    except ValidationError:
        return None


def write_waiting(generated: Generated) -> str:
    """A round for a checkpoint."""
    return GENERATED.dump_json(generated).decode()


def read_waiting(text: str) -> Generated:
    """The inverse of `write_waiting`."""
    return GENERATED.validate_json(text)


def generator_environment(threads: int) -> dict[str, str]:
    """For a process that shares the cores with another one. Idle threads sleep instead of spinning."""
    count = str(threads)
    threading = {
        "OMP_WAIT_POLICY": "passive",
        "OMP_NUM_THREADS": count,
        "MKL_NUM_THREADS": count,
        "TOKENIZERS_PARALLELISM": "false",
    }
    return without_secrets(threading)
