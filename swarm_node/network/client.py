"""The trainer's side of the network: it publishes, collects and passes on verdicts; a thread runs
the network process.

Nothing here raises, and only `close` waits: what the network does or fails to do is a count or a
line for the user.
"""

import asyncio
import math
import os
import threading
import traceback
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any

from protocol import codec, limits
from protocol.card import Card, Signed, narrowed, read
from protocol.identity import Identity
from protocol.messages import Reason, RolloutGroup, Round
from swarm_node.common.channel import BrokenFrame
from swarm_node.common.errors import UserError
from swarm_node.network.access import Access
from swarm_node.network.actions import SERVE_ROUNDS, UNINFORMATIVE, USEFUL, Cards, Deliver, Refuse
from swarm_node.network.process import control, messages
from swarm_node.network.process.keeper import Keeper, load_memory
from swarm_node.network.process.outgoing import Pace
from swarm_node.network.process.supervisor import COMMAND, STOP_SECONDS, Supervisor
from swarm_node.rollouts.groups import Group
from swarm_node.rollouts.interfaces import Environment, Network
from swarm_node.settings import LearningConfig, NetworkConfig, NodeConfig

# Generous, also for other tokenizers; bounds what a peer's group may cost to train on
CHARS_PER_TOKEN = 16
INBOX_GROUPS = 1024  # received and not collected yet
SPREAD = 8  # rounds over which the inbox is handed out, at most
LINES = 64  # for the user, not read yet
UNSENT, ALONE = "unsent: too big", "unsent: trained on alone"
INBOX_FULL = "inbox full"
VIEW_SECONDS = 2.0  # that the network process may take to answer with its view
LOG_FILE = "network.log"
Progress = Callable[[], dict[str, Any]]


class RemoteNetwork(Network):
    """Access to the swarm, through a network process if the network is on. Call `start` and `close`
    once each.
    """

    def __init__(
        self,
        identity: Identity,
        home: Path,
        config: NetworkConfig,
        rules: messages.Rules,
        want: int,
        progress: Progress,
        command: Sequence[str] = COMMAND,
        today: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`want`: external groups per round; `progress`: facts about training, for commands that
        ask the node. `today`: seconds since 1970; with the default, 0, this node takes no newer
        card from a peer.
        """
        self._identity, self._home, self._config, self._rules = identity, home, config, rules
        self._want, self._progress = want, progress
        self._inbox: deque[Group] = deque()
        self._lines: deque[tuple[str, bool]] = deque(maxlen=LINES)
        self._rejections: Counter[str] = Counter()
        self._memory, self._access = load_memory(home, rules.swarm), Access()
        self._keeper = Keeper(
            home, rules.swarm, lambda: self._memory, self._allow, self._go_by, self._say, today
        )
        self._cards: Cards | None = None
        self._published: deque[messages.Publish] = deque(maxlen=SERVE_ROUNDS)
        self._alive = messages.Alive(connected=0)
        self._before = 0  # bytes that earlier network processes exchanged
        self._pace = Pace()
        self._resting, self._leaving = False, False
        self._awake = asyncio.Event()
        self._life: asyncio.Task[None] | None = None
        self._received = 0
        # The last view; set once one has come
        self._seen, self._viewed = messages.NetworkSnapshot({}), asyncio.Event()
        self._supervisor = Supervisor(
            self._opening, self._receive, self._say, home / LOG_FILE, Random(), command
        )
        known = messages.Rules(swarm=rules.swarm, environments=rules.environments)
        # Groups outside these rules are not shared
        self._known = self._shared = known.admission(identity.peer_id)
        self._loop = asyncio.new_event_loop()
        self._main: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._work, name="network", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Says goodbye to the others; takes a few seconds at most."""
        self._leaving = True
        with suppress(RuntimeError):  # the loop has ended by itself
            self._loop.call_soon_threadsafe(lambda: self._main and self._main.cancel())
        self._thread.join(STOP_SECONDS + 2.0)

    @property
    def connected(self) -> int:
        """Peers connected to, as of a few seconds ago."""
        return self._alive.connected

    @property
    def waiting(self) -> int:
        """Groups that have come, and have not been collected."""
        return len(self._inbox)

    @property
    def addresses(self) -> tuple[str, ...]:
        """Full multiaddrs of this node, best first, as of a few seconds ago."""
        return self._alive.addresses

    @property
    def traffic(self) -> int:
        """Bytes exchanged both ways since the start."""
        return self._before + self._alive.spent

    def why_alone(self) -> str:
        """Why no external group may have come, for a person; "" while this node rests."""
        alive = self._alive
        if not self._config.enabled or self._resting:
            return "" if self._config.enabled else "the network is off"
        if not alive.addresses and not alive.connected:
            return "the network is starting"
        if not alive.known and alive.strangers:
            return f"{alive.strangers} peers found, all of another swarm or version"
        if not alive.connected:
            return "nobody is connected"
        strange = (
            self._rejections[Reason.UNKNOWN_QUESTION] + self._rejections[Reason.OTHER_ENVIRONMENT]
        )
        if self._received < 2 * strange:
            return "others have other questions: see swarm-node status"
        return (
            "nothing new has come" if alive.known else "nobody of this swarm has said anything yet"
        )

    def rest(self, resting: bool) -> None:
        """Leaves the swarm while `resting`, or returns to it."""
        with suppress(RuntimeError):  # closed
            self._loop.call_soon_threadsafe(self._rest, resting)

    def lines(self) -> list[tuple[str, bool]]:
        """The network's lines for the user since the last call, and whether each is a warning."""
        return [self._lines.popleft() for _ in range(len(self._lines))]

    def publish(self, groups: Sequence[RolloutGroup], now: Round) -> None:
        self._pace.generated(monotonic())
        if not self._config.enabled:
            return
        envelopes = []
        for group in groups:
            if not self._may_share(group):
                self._rejections[ALONE] += 1
                continue
            try:
                envelopes.append(codec.seal(group, self._identity, self._rules.swarm))
            except ValueError:
                self._rejections[UNSENT] += 1
        self._post(messages.Publish(round=now, want=self._want, envelopes=tuple(envelopes)))

    def collect(self, now: Round) -> list[Group]:
        """Spreads groups that came for several quick rounds over as many: by the last they would
        else be too old.
        """
        waiting = len(self._inbox)
        count = min(self._pace.per_round(waiting), max(self._want, math.ceil(waiting / SPREAD)))
        return [self._inbox.popleft() for _ in range(count)]

    def verdict(self, external: Group, useful: bool, fault: str = "") -> None:
        outcome = fault or (USEFUL if useful else UNINFORMATIVE)
        self._post(
            messages.GroupOutcome(author=external.author, content_hash=external.id, outcome=outcome)
        )

    def rejections(self) -> Mapping[str, int]:
        return {str(reason): count for reason, count in self._rejections.items()}

    def _post(self, message: messages.FromTrainer) -> None:
        with suppress(RuntimeError):  # closed: the message is lost
            self._loop.call_soon_threadsafe(self._send, message)

    # What follows runs in the thread.

    def _work(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._serve())
        except asyncio.CancelledError:
            pass
        except Exception as error:  # noqa: BLE001 - a mistake of ours in here must not end training
            traceback.print_exc()
            self._say(
                (
                    f"the network has ended because of a bug of this program ({error!r}): please "
                    "report it; training continues alone"
                ),
                True,
            )

    async def _serve(self) -> None:
        self._main = asyncio.current_task()
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(await control.serve(self._home, self._answer))
            except (OSError, UserError) as error:
                self._say(
                    f"swarm-node status cannot reach this node: {error}; everything else works",
                    True,
                )
            while True:
                await self._live()

    async def _live(self) -> None:
        """Shares or rests, until `rest` switches from one to the other."""
        self._awake.clear()
        if not self._config.enabled or self._resting:
            await self._awake.wait()
            return
        self._keeper.look()
        self._life, keeping = (
            asyncio.create_task(self._supervisor.run()),
            asyncio.create_task(self._keeper.run()),
        )
        try:
            await asyncio.wait([self._life, keeping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._life.cancel()
            (ended,) = await asyncio.gather(self._life, return_exceptions=True)
            keeping.cancel()  # after the process: the keeper saves the last memory that it sends
            (failed,) = await asyncio.gather(keeping, return_exceptions=True)
            ended = failed if isinstance(failed, Exception) else ended
        if isinstance(ended, Exception):
            raise ended

    def _rest(self, resting: bool) -> None:
        self._resting = resting
        self._awake.set()
        if resting and self._life is not None:
            self._life.cancel()
            self._before, self._alive = self.traffic, messages.Alive(connected=0)

    def _may_share(self, group: RolloutGroup) -> bool:
        rules, asked, most = (
            self._shared,
            group.question,
            max(each.chars for each in group.episodes),
        )
        fits = len(group.episodes) <= rules.max_episodes and most <= rules.max_episode_chars
        return fits and rules.knows(asked) and not rules.differs(asked)

    def _go_by(self, cards: Cards) -> None:
        card = read(cards.cards[-1])
        assert isinstance(card, Signed), card
        self._cards, self._shared = cards, narrowed(self._known, card.card)
        for line in other_versions(card.card, self._rules):
            self._say(line, True)
        self._supervisor.send(cards)

    def _allow(self, access: Access) -> None:
        self._access = access
        self._supervisor.send(messages.Allow(access=access))

    def _opening(self, folder: Path) -> list[messages.FromTrainer]:
        said = self._config, self._memory, self._access, self._want, self._cards
        start = messages.Start(self._identity.key_bytes(), self._rules, str(folder), *said)
        return [start, *self._published]

    def _send(self, message: messages.FromTrainer) -> None:
        if isinstance(message, messages.Publish):
            self._published.append(message)
        self._supervisor.send(message)

    def _receive(self, message: messages.FromNetwork) -> None:
        match message:
            case Deliver():
                self._take(_delivered(message))
            case Refuse(reason=reason):
                self._rejections[reason] += 1
                self._received += 1
            case Cards(cards=cards):
                self._keeper.renew(cards)
            case messages.Memory():
                self._memory = message
            case messages.Alive(spent=spent):
                if spent < self._alive.spent:  # another process than before
                    self._before += self._alive.spent
                if message.addresses != self._alive.addresses:
                    self._keeper.addresses(message.addresses)
                self._alive = message
            case messages.Said(text=text, warning=warning):
                self._say(text, warning)
            case messages.NetworkSnapshot():
                self._seen = message
                self._viewed.set()

    def _take(self, external: Group) -> None:
        if len(self._inbox) >= INBOX_GROUPS:
            self._inbox.popleft()
            self._rejections[INBOX_FULL] += 1
        self._inbox.append(external)
        self._received += 1

    def _say(self, text: str, warning: bool) -> None:
        self._lines.append((text, warning))

    async def _answer(self) -> dict[str, Any]:
        """The state of the whole node, for `status` and other commands that ask."""
        return {
            "role": "node",
            "peer_id": self._identity.peer_id,
            "pid": os.getpid(),
            "questions": {name: version for name, (version, _) in self._rules.environments.items()},
            "training": self._progress()
            | {"received": self._received, "rejected": self.rejections()},
            "network": await self._view(),
        }

    async def _view(self) -> Mapping[str, Any]:
        """Facts about the network process, with its own view if that comes within
        `VIEW_SECONDS`.
        """
        process = {
            "enabled": self._config.enabled,
            "resting": self._resting,
            "leaving": self._leaving,
            "processes": self._supervisor.lives,
            "running": self._supervisor.channel is not None,
        }
        if self._supervisor.channel is None:
            return process
        self._viewed.clear()
        self._supervisor.send(messages.Ask())
        try:
            async with asyncio.timeout(VIEW_SECONDS):
                await self._viewed.wait()
        except TimeoutError:
            return process | {"running": False}
        return {**process, **self._seen.view}


def _delivered(message: Deliver) -> Group:
    """The group that was delivered. BrokenFrame where the network process sent no group: it admits
    nothing else, so it no longer does what it was started for.
    """
    try:
        return Group.received(message.group, message.content_hash, message.party)
    except ValueError as error:
        raise BrokenFrame(str(error)) from error


def build_rules(config: LearningConfig, environment: Environment) -> messages.Rules:
    """What this node admits from the network."""
    generation = config.generation
    return messages.Rules.of(
        config.swarm,
        environment.catalogue,
        max_episodes=min(limits.MAX_EPISODES, 2 * generation.num_generations),
        max_episode_chars=min(
            limits.MAX_EPISODE_CHARS, CHARS_PER_TOKEN * generation.max_completion_length
        ),
    )


def other_versions(card: Card, rules: messages.Rules) -> list[str]:
    """A line for each environment of this node that a card asks in another version: none of its
    groups would be taken by the others, so none is sent.
    """
    theirs = {task.environment: task.version for task in card.tasks}
    ours = {name: version for name, (version, _) in rules.environments.items()}
    return [
        f"the manifest asks for version {theirs[name]} of {name}, but this node has version "
        f"{ours[name]}, so it trains and shares nothing: ask the signers for a manifest with this "
        "version, or install the release that they use"
        for name in sorted(theirs.keys() & ours.keys())
        if theirs[name] != ours[name]
    ]


def build_network(
    config: NodeConfig,
    identity: Identity,
    environment: Environment,
    progress: Progress,
    today: Callable[[], float],
) -> RemoteNetwork:
    """The network, not started yet. `progress`: facts about training, for `status`. `today`:
    seconds since 1970.
    """
    rules = build_rules(config, environment)
    want = config.round.most_external
    return RemoteNetwork(
        identity, config.home.expanduser(), config.network, rules, want, progress, today=today
    )
