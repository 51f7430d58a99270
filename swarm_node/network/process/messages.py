"""What a trainer and its network process say to each other.

Both ends are ours, but one of them reads what strangers send. So each field has a type, and the trainer checks it.
"""

from msgspec import field
from pydantic import BaseModel, ConfigDict

from protocol import limits
from protocol.admission import AdmissionRules
from protocol.messages import PeerId, Round
from swarm_node.common.channel import Message, Talk
from swarm_node.network.access import Access
from swarm_node.network.actions import Cards as Cards
from swarm_node.network.actions import ForTrainer, Remembered
from swarm_node.rollouts.groups import Catalogue
from swarm_node.settings import NetworkConfig

MAX_PEERS = 64  # that are remembered
MAX_FRAME_BYTES = 16 * 1024 * 1024  # 64 envelopes of 64 KB fit; a round has about 9 of 10 KB

_Scalar = None | bool | int | float | str
_Row = dict[str, _Scalar | list[_Scalar] | dict[str, _Scalar]]


class Memory(Message, frozen=True):
    """What must outlive the network process. Sent to the trainer now and then, and on disk beside it."""

    port: int = 0  # listened on
    exchange: Remembered = Remembered()
    peers: dict[PeerId, tuple[str, ...]] = field(default_factory=dict)  # addresses that reached others, the best first
    private: tuple[str, ...] = ()  # private ranges in which peers were that the user named: others may be dialled there


class Rules(BaseModel):
    """What the trainer lets in, as plain data."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    swarm: str
    environments: dict[str, tuple[str, dict[str, tuple[str, ...]]]]  # see rollouts.groups.Catalogue
    several: dict[str, int] = {}
    max_episodes: int = limits.MAX_EPISODES
    max_episode_chars: int = limits.MAX_EPISODE_CHARS

    @classmethod
    def of(cls, swarm: str, catalogue: Catalogue, **bounds: int) -> "Rules":
        """Groups of this swarm on questions of this catalogue, within these bounds or those of the protocol."""
        known = catalogue.environments.items()
        tasks = {name: (version, {d: tuple(c) for d, c in of.items()}) for name, (version, of) in known}
        return cls(swarm=swarm, environments=tasks, several=dict(catalogue.several), **bounds)

    def admission(self, local_id: PeerId) -> AdmissionRules:
        """The same for a node with this peer id."""
        catalogue = Catalogue(self.environments, self.several)
        return AdmissionRules(
            swarm=self.swarm,
            local_id=local_id,
            knows=catalogue.knows,
            turns=catalogue.turns,
            max_episodes=self.max_episodes,
            max_episode_chars=self.max_episode_chars,
        )


class Start(Message, frozen=True):
    """First frame of the trainer. The key comes with it, and so does what the home remembers: the other process opens
    no file there."""

    key: bytes
    rules: Rules
    folder: str  # for its sockets; it has no other
    config: NetworkConfig
    memory: Memory
    access: Access
    want: int  # external groups that the first round would like to find
    cards: Cards | None = None  # first: nobody may enter a private swarm before


class Allow(Message, frozen=True):
    """The user's lists have changed."""

    access: Access


class Publish(Message, frozen=True):
    """Local groups of a round, sealed, and how many of others the trainer would like for its next; or of some
    rounds."""

    round: Round
    want: int
    envelopes: tuple[bytes, ...]
    rounds: int = 1


class Verdict(Message, frozen=True):
    """What the trainer found in a group."""

    author: PeerId
    content_hash: bytes
    outcome: str


class Ask(Message, frozen=True):
    """Request for a view."""


class Stop(Message, frozen=True):
    """End, and say goodbye to the others."""


class Said(Message, frozen=True):
    """A line for the user."""

    text: str
    warning: bool = False


class Alive(Message, frozen=True):
    """Sent every few seconds: no news for long means that the process hangs."""

    connected: int  # peers
    known: int = 0  # peers of this swarm that have announced themselves
    strangers: int = 0  # peers of another swarm or version
    addresses: tuple[str, ...] = ()  # of this node, best first
    spent: int = 0  # bytes exchanged both ways since this process began


class View(Message, frozen=True):
    """How the network looks from here, as plain data for `status`, `peers` and `doctor`."""

    view: dict[str, _Scalar | list[_Scalar | _Row] | dict[str, _Scalar]]


FromTrainer = Start | Cards | Allow | Publish | Verdict | Ask | Stop
FromNetwork = Memory | ForTrainer | Said | Alive | View
NETWORK: Talk[FromTrainer, FromNetwork] = Talk(FromTrainer, FromNetwork, MAX_FRAME_BYTES)
