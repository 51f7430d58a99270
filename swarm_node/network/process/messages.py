"""What a trainer and its network process say to each other: typed frames over a socket pair, a bounded queue each way.

A frame is four bytes of length, big-endian, and one JSON object; bytes travel in it as base64. Both ends are ours, but
one of them reads what strangers send, so that a frame is bounded and checked like any other input.
"""

import asyncio
from collections import deque
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from protocol import limits
from protocol.admission import AdmissionRules
from protocol.messages import PeerId, RolloutGroup, Round
from swarm_node.network.access import Access
from swarm_node.network.actions import Deliver, Refuse
from swarm_node.rollouts.catalogue import Catalogue
from swarm_node.settings import NetworkConfig

MAX_FRAME_BYTES = 16 * 1024 * 1024  # 64 envelopes of 64 KB fit; a round has about 9 of 10 KB
LENGTH_BYTES = 4


class BrokenFrame(Exception):
    """The bytes are no frame: the other end is not what was started, or not any more."""


class _Frame(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_bytes="base64", val_json_bytes="base64")


class Memory(_Frame):
    """What must outlive the network process. Sent to the trainer now and then, and on disk beside it."""

    kind: Literal["memory"] = "memory"
    port: int  # listened on
    exchange: dict[str, Any]  # `Exchange.state`
    peers: dict[PeerId, tuple[str, ...]]  # addresses by which others were reached, the best first
    private: tuple[str, ...] = ()  # private ranges in which peers were that the user named: others may be dialled there


class Rules(BaseModel):
    """What the trainer lets in, as plain data."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    swarm: str
    environments: dict[str, tuple[str, dict[str, tuple[str, ...]]]]  # see rollouts.catalogue.Catalogue
    max_completions: int = limits.MAX_COMPLETIONS
    max_completion_chars: int = limits.MAX_COMPLETION_CHARS

    def admission(self, local_id: PeerId) -> AdmissionRules:
        """The same for a node with this peer id."""
        return AdmissionRules(
            swarm=self.swarm,
            local_id=local_id,
            knows=Catalogue(self.environments).knows,
            max_completions=self.max_completions,
            max_completion_chars=self.max_completion_chars,
        )


class Start(_Frame):
    """First frame of the trainer. The key comes with it, and so does what the home remembers: the other process opens
    no file there."""

    kind: Literal["start"] = "start"
    key: bytes
    rules: Rules
    folder: str  # for its sockets; it has no other
    config: NetworkConfig
    memory: Memory
    access: Access
    want: int  # external groups that the first round would like to find


class Allow(_Frame):
    """The user's lists have changed."""

    kind: Literal["allow"] = "allow"
    access: Access


class Publish(_Frame):
    """Local groups of a round, sealed, and how many of others the trainer would like for its next; or of some
    rounds."""

    kind: Literal["publish"] = "publish"
    round: Round
    want: int
    envelopes: tuple[bytes, ...]
    rounds: int = 1


class Verdict(_Frame):
    """What the trainer found in a group."""

    kind: Literal["scored"] = "scored"
    author: PeerId
    content_hash: bytes
    outcome: str


class Ask(_Frame):
    """Request for a view; the answer carries the same number."""

    kind: Literal["ask"] = "ask"
    number: int


class Stop(_Frame):
    """End, and say goodbye to the others."""

    kind: Literal["stop"] = "stop"


class Received(_Frame):
    """A group of another peer, admitted. What crosses here is a value of ours: it is not checked again."""

    kind: Literal["received"] = "received"
    group: RolloutGroup
    content_hash: bytes


class Refused(_Frame):
    """A genuine group of another peer that is not admitted."""

    kind: Literal["refused"] = "refused"
    reason: str


class Said(_Frame):
    """A line for the user."""

    kind: Literal["said"] = "said"
    text: str
    warning: bool = False


class Alive(_Frame):
    """Sent every few seconds: no news for long means that the process hangs."""

    kind: Literal["alive"] = "alive"
    connected: int  # peers
    known: int = 0  # peers of this swarm that have announced themselves
    strangers: int = 0  # peers of another swarm or version
    addresses: tuple[str, ...] = ()  # of this node, best first
    spent: int = 0  # bytes exchanged both ways since this process began


class View(_Frame):
    """How the network looks from here, as plain data for `status`, `peers` and `doctor`."""

    kind: Literal["view"] = "view"
    number: int
    view: dict[str, Any]


FromTrainer = Start | Allow | Publish | Verdict | Ask | Stop
FromNetwork = Memory | Received | Refused | Said | Alive | View
Frame = FromTrainer | FromNetwork

_ANY: TypeAdapter[Frame] = TypeAdapter(
    Annotated[Frame, Field(discriminator="kind")],
    config=ConfigDict(cache_strings="keys"),  # as in protocol.messages
)


def encode(frame: Frame) -> bytes:
    """Length and JSON of the frame."""
    body = frame.model_dump_json().encode()
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


async def read(reader: asyncio.StreamReader) -> Frame | None:
    """The next frame; None where the stream ends, in whatever way. Raises BrokenFrame."""
    try:
        size = int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big")
        if size > MAX_FRAME_BYTES:
            raise BrokenFrame(f"frame of {size} bytes")
        return _ANY.validate_json(await reader.readexactly(size))
    except (asyncio.IncompleteReadError, OSError):
        return None
    except ValidationError as error:
        raise BrokenFrame(f"not a frame: {error.error_count()} mistakes") from error


class Outbox:
    """Frames on their way to the other process. Never waits: when that one is slow, the oldest go."""

    def __init__(self, limit: int) -> None:
        """`limit`: frames waiting."""
        self._frames: deque[bytes] = deque()
        self._limit = limit
        self._filled = asyncio.Event()
        self.dropped = 0

    def put(self, frame: Frame) -> None:
        """Adds the frame. When full the oldest is dropped, and a frame that is too big is."""
        data = encode(frame)
        if len(data) > MAX_FRAME_BYTES:
            self.dropped += 1
            return
        if len(self._frames) >= self._limit:
            self._frames.popleft()
            self.dropped += 1
        self._frames.append(data)
        self._filled.set()

    def deliver(self, action: Deliver | Refuse) -> None:
        """What the exchange has for the trainer."""
        match action:
            case Deliver(group=group, content_hash=content_hash):
                self.put(Received(group=group, content_hash=content_hash))
            case Refuse(reason=reason):
                self.put(Refused(reason=str(reason)))

    def clear(self) -> None:
        """Forgets what was not sent yet."""
        self._frames.clear()

    async def pump(self, writer: asyncio.StreamWriter) -> None:
        """Write for as long as the other end reads; returns when it is gone."""
        try:
            while True:
                await self._filled.wait()
                while self._frames:
                    writer.write(self._frames.popleft())
                    await writer.drain()
                self._filled.clear()
        except OSError:
            return
