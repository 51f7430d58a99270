"""What a trainer and its network process say to each other.

Both ends are ours, but the network process reads what strangers send. So the trainer checks the
type of each field.
"""

from msgspec import field
from pydantic import BaseModel, ConfigDict

from protocol import limits
from protocol.admission import AdmissionRules
from protocol.messages import PeerId, Round
from swarm_node.common.channel import PipeMessage, Talk
from swarm_node.network.access import Access
from swarm_node.network.actions import Cards as Cards
from swarm_node.network.actions import ForTrainer, Remembered
from swarm_node.rollouts.groups import Catalogue
from swarm_node.settings import NetworkConfig

MAX_PEERS = 64  # peers that are remembered
MAX_FRAME_BYTES = 16 * 1024 * 1024  # 64 envelopes of 64 KB fit; a round has about 9 of 10 KB

_Scalar = None | bool | int | float | str
_Row = dict[str, _Scalar | list[_Scalar] | dict[str, _Scalar]]


class Memory(PipeMessage, frozen=True):
    """What must outlive the network process. It goes to the trainer every few seconds, and is kept
    on disk as well, except `private`.
    """

    port: int = 0  # that the node listened on; 0: none yet
    exchange: Remembered = Remembered()
    # Full multiaddrs by peer, steady peers first
    peers: dict[PeerId, tuple[str, ...]] = field(default_factory=dict)
    # Private ranges where the user's peers were found in this run: others may be dialled there
    private: tuple[str, ...] = ()


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
        """Admits groups of this swarm on questions of this catalogue, within `bounds`, by default
        the protocol's.
        """
        known = catalogue.environments.items()
        tasks = {
            name: (version, {d: tuple(c) for d, c in of.items()}) for name, (version, of) in known
        }
        return cls(swarm=swarm, environments=tasks, several=dict(catalogue.several), **bounds)

    def admission(self, local_id: PeerId) -> AdmissionRules:
        """These rules for a node with this peer id."""
        catalogue = Catalogue(self.environments, self.several)
        return AdmissionRules(
            swarm=self.swarm,
            local_id=local_id,
            knows=catalogue.knows,
            turns=catalogue.turns,
            max_episodes=self.max_episodes,
            max_episode_chars=self.max_episode_chars,
        )


class Start(PipeMessage, frozen=True):
    """First frame of the trainer. It carries the key and what the home remembers, because the
    network process opens no file in the home.
    """

    key: bytes
    rules: Rules
    folder: str  # for sockets; the network process may write to no other
    config: NetworkConfig
    memory: Memory
    access: Access
    want: int  # external groups that the first round would like to find
    cards: Cards | None = None  # in the first frame: nobody may enter a private swarm before


class Allow(PipeMessage, frozen=True):
    """The user's lists have changed."""

    access: Access


class Publish(PipeMessage, frozen=True):
    """Sealed local groups of a round, or of `rounds` quick ones, and how many external groups the
    trainer would like for the next round, or for as many.
    """

    round: Round
    want: int
    envelopes: tuple[bytes, ...]
    rounds: int = 1


class GroupOutcome(PipeMessage, frozen=True):
    """What the trainer found in a group."""

    author: PeerId
    content_hash: bytes
    outcome: str


class Ask(PipeMessage, frozen=True):
    """Request for a view."""


class Stop(PipeMessage, frozen=True):
    """End, and say goodbye to the other peers."""


class Said(PipeMessage, frozen=True):
    """A line for the user."""

    text: str
    warning: bool = False


class Alive(PipeMessage, frozen=True):
    """Sent every few seconds: a network process that says nothing for long hangs."""

    connected: int  # peers
    known: int = 0  # peers of this swarm that have announced themselves
    strangers: int = 0  # peers of another swarm or version
    addresses: tuple[str, ...] = ()  # of this node, best first
    spent: int = 0  # bytes exchanged both ways since this process began


class NetworkSnapshot(PipeMessage, frozen=True):
    """How the network looks from here, as plain data for `status`, `peers` and `doctor`."""

    view: dict[str, _Scalar | list[_Scalar | _Row] | dict[str, _Scalar]]


FromTrainer = Start | Cards | Allow | Publish | GroupOutcome | Ask | Stop
FromNetwork = Memory | ForTrainer | Said | Alive | NetworkSnapshot
NETWORK: Talk[FromTrainer, FromNetwork] = Talk(FromTrainer, FromNetwork, MAX_FRAME_BYTES)
