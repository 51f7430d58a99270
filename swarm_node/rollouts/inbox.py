"""The inbox: every external group of this node, from its arrival until it is forgotten.

Peers send groups when they like, and a round takes some of them. Between the two a group waits, is
scored here because rewards never travel, and is trained on, in several rounds if they are quick.
When it has served, its name is remembered for a while, so that the same group is not taken a second
time when it arrives again. The inbox is the one place that holds external groups; the code around
it asks it for groups and tells it what became of them.

                                    arrive()
                                       |
                                       v
                                 +---------+   too old, too many, or of an
            +--------------------| WAITING |---author whose group hung ----+
            |  not scored,       +---------+                               |
            |  since an earlier       | scored()                           |
            |  group of its author    v                                    |
            |  hung               +--------+   the same                    v
            +<--------------------| SCORED |--------------------------> forgotten
            |  settle(): without  +--------+                               ^
            |  signal, refused        | settle(): chosen                   |
            |  or not scorable        v                                    |
            |                    +---------+                               |
            |                    | SERVING |---serve(): and too old -------+
            |                    +---------+                               |
            |                         | serve(): often or long enough      |
            |                         v                                    |
            |                      +------+                                |
            +--------------------->| DONE |---arrive(): too old -----------+
                                   +------+

| state   | what is held                                    | who moves the group on               |
|---------|-------------------------------------------------|--------------------------------------|
| WAITING | the group as it arrived                         | `scored`, when this node has scored  |
|         |                                                 | it; `settle`, if it was passed over  |
| SCORED  | also its rewards, or why it has none            | `settle`, at the end of the round    |
|         |                                                 | that looked at it                    |
| SERVING | the group as it is trained on, without what the | `serve`, when it has served so many  |
|         | defence left out                                | rounds, or for so many seconds       |
| DONE    | its name: author and question                   | `arrive`, when it is too old; its    |
|         |                                                 | name stays among those answered      |

What always holds (tests/core/rollouts/test_inbox.py):

- A group is in one state. Each that was taken in is waiting, scored, serving, done or forgotten.
- Of one author and question at most one group is looked at. What a round has looked at and not
  kept is never taken in again while its name is among the last MAX_ANSWERED, however it is spelt.
- Nobody gets more places in the training set than a share, where the inbox shares out: see
  shares.py. Of two groups that say nearly the same to one prompt the second is left: see copies.py.
- Groups that are WAITING or SCORED are bounded in age, in number, and for each peer. The newest
  stay. Age counts in rounds of this node: a sender's clock is never trusted.
- A group is scored once, and the network gets one verdict on it, unless it is forgotten before.

Beside the states stands a queue of comparisons. With a layer of the defence that `compares`, this
node completes the question of a chosen group itself, in its next round, and trains on the group
then. So a group may be compared and serve at the same time, and comparing is no state.

Nothing here waits, draws random numbers of its own or reads a clock: rounds, seconds and the random
stream are arguments. One thread calls it, the trainer's.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from hashlib import blake2b
from random import Random
from statistics import fmean

from protocol.messages import PeerId, Question, RolloutGroup, Round
from swarm_node.common.batched import paired
from swarm_node.common.lru import Lru
from swarm_node.rollouts.copies import Copies
from swarm_node.rollouts.groups import HUNG, Group, Refused, Skipped
from swarm_node.rollouts.shares import Shares

MAX_AGE = 2  # rounds that a group stays available after its arrival
MAX_GROUPS = 1024  # waiting or scored at most; the oldest go first
MAX_PER_PEER = 32  # of those, of any one peer
# Groups whose questions were asked and not answered. An asynchronous node asks those of many rounds
# before the first of them is answered, and where it fills places, of many groups in each
MAX_ASKED = 1024
MAX_PEERS = 1024  # authors of whom a record is kept
MAX_ANSWERED = 2048  # names that are remembered, as many as the network remembers content hashes
NAME_BYTES = 12  # of the hash of a name
COPY = "near copy of another group"  # why a group is left, a key for counting

Key = tuple[PeerId, Question]  # the name of a group: its author, and the question it answers
Result = Group | Skipped
ScoreGroups = Callable[[Sequence[Group]], Sequence[Result]]


class State(Enum):
    """Where an external group is in its life: see the drawing above."""

    WAITING = "waiting"
    SCORED = "scored"
    SERVING = "serving"
    DONE = "done"


@dataclass(slots=True, eq=False)
class HeldGroup:
    """A group in the inbox.

    Attributes:
        group: as it arrived. Once it is DONE only its name is left, without samples.
        arrived: in which round of this node.
        result: the group with its rewards, or why it could not be scored; None while it is WAITING.
            Of a group that is SERVING: as it is trained on.
        since: when it served its first round, in seconds.
        rounds: how many rounds it has served.
    """

    group: Group
    arrived: Round
    state: State = State.WAITING
    result: Result | None = None
    since: float = 0.0
    rounds: int = 0

    @property
    def key(self) -> Key:
        return key_of(self.group)

    @property
    def selectable(self) -> bool:
        """Whether it has not been chosen or left out yet."""
        return self.state in (State.WAITING, State.SCORED)

    @property
    def fault(self) -> str:
        """Why it could not be scored; "" if it could, or was not tried."""
        return self.result.reason if isinstance(self.result, Skipped) else ""


@dataclass(frozen=True, slots=True)
class PeerRecord:
    """What became of one peer's groups on this node since it started.

    Attributes:
        arrived: groups taken in.
        scored: groups that got rewards here, each counted when a round looked at it.
        informative: of those, groups whose completions did not all score alike.
        refused: of those, groups that the defence refused whole.
        chosen: of those, groups that were trained on.
        unscored: groups that could not be scored here.
        reward: mean over the groups that were scored; None if there are none.
    """

    arrived: int = 0
    scored: int = 0
    informative: int = 0
    refused: int = 0
    chosen: int = 0
    unscored: int = 0
    reward: float | None = None


@dataclass(slots=True)
class Draw:
    """What one round looks at in the inbox. It begins with the groups that could not be scored, and
    grows batch by batch until enough are chosen.

    Attributes:
        entries: what was looked at, in this order.
        faults: why groups could not be scored, of those that could not.
        considered: the groups that have rewards, as they were scored.
        passed: of those, the informative ones that the defence left, without what it left out.
        copies: near copies of groups that were looked at before. They have rewards and are not
            considered.
        chosen: of those, the groups to train on.
        refused: those that the defence refused whole.
    """

    entries: dict[Key, HeldGroup] = field(default_factory=dict)
    faults: dict[Key, str] = field(default_factory=dict)
    considered: list[Group] = field(default_factory=list)
    passed: list[Group] = field(default_factory=list)
    chosen: list[Group] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    copies: list[Group] = field(default_factory=list)

    @property
    def hung(self) -> set[PeerId]:
        """Authors of groups that hung or crashed the scorer."""
        return {author for (author, _), reason in self.faults.items() if reason in HUNG}

    def look(self, entries: Sequence[HeldGroup]) -> None:
        """Adds groups that were scored, or that were passed over."""
        self.entries.update((entry.key, entry) for entry in entries)
        self.faults.update((entry.key, entry.fault) for entry in entries if entry.fault)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the network is told of a group that leaves the choice: see `Network.verdict`."""

    group: Group
    useful: bool
    fault: str = ""


class Inbox:
    """External groups and their states: see the head of this file."""

    def __init__(
        self,
        local_id: PeerId,
        rounds: int = 1,
        seconds: float = 0.0,
        *,
        max_age: int = MAX_AGE,
        max_groups: int = MAX_GROUPS,
        max_per_peer: int = MAX_PER_PEER,
        shares: Shares | None = None,
    ) -> None:
        """A group serves `rounds` rounds at most, and none later than `seconds` after its first.
        `shares` bounds what one party gets; without it groups are drawn by chance alone.

        A round may take 50 ms, and the network brings groups once a second. So a group serves
        several quick rounds. Where rounds take long it serves one, as in the paper.
        """
        self._local_id = local_id
        self._rounds, self._seconds = rounds, seconds
        self._max_age, self._max_groups, self._max_per_peer = max_age, max_groups, max_per_peer
        # In the order of arrival. Groups that serve are here until they are too old
        self._entries: dict[Key, HeldGroup] = {}
        # In the order in which they were chosen
        self._serving: list[HeldGroup] = []
        # Authors of whom nothing is taken in, since that round
        self._shunned: dict[PeerId, Round] = {}
        # Comparisons: groups whose questions the next round asks, and those that were asked.
        # Bounded, since a round that is lost brings no answers
        self._to_ask: list[Group] = []
        self._asked: Lru[Question, Group] = Lru(MAX_ASKED)
        self._peers: Lru[PeerId, PeerRecord] = Lru(MAX_PEERS)
        self._arrived = self._forgotten = 0
        self._shares = shares
        self._copies = Copies()
        # Names of groups that a round has looked at and not kept, those of earlier runs too
        self._answered: Lru[str, None] = Lru(MAX_ANSWERED)

    def __len__(self) -> int:
        """How many groups may still be chosen."""
        return len(self._selectable())

    def counts(self) -> dict[str, int]:
        """How many groups were taken in and how many were forgotten, and how many are in each
        state. "arrived" is the sum of all others.
        """
        states = Counter(entry.state for entry in self._entries.values())
        states[State.SERVING] = len(self._serving)
        held = {state.value: states[state] for state in State}
        return {"arrived": self._arrived, **held, "forgotten": self._forgotten}

    def peers(self) -> Mapping[PeerId, PeerRecord]:
        """What became of the groups of each peer, the peer of the latest news last."""
        return dict(self._peers)

    # Arrival, and what is forgotten

    def arrive(self, groups: Iterable[Group], now: Round) -> None:
        """Takes in the groups that arrived in round `now`, and forgets those that are too old or
        too many.

        A group is left out if it is this node's own, if its author is shunned, or if one of the
        same author and question is held or was looked at before.
        """
        oldest = now - self._max_age
        self._shunned = {
            author: since for author, since in self._shunned.items() if since >= oldest
        }
        taken = list[Group]()
        for group in groups:
            welcome = group.author != self._local_id and group.author not in self._shunned
            if welcome and not self._has_come(key_of(group)):
                self._add(HeldGroup(group, now))
                self._count(group.author, arrived=1)
                taken.append(group)
        if self._shares is not None:
            self._shares.arrived(taken, now)
        self._forget([entry for entry in self._entries.values() if entry.arrived < oldest])
        self._forget(self._over_quota())

    # Scoring

    def candidates(self) -> list[Group]:
        """The groups that may be chosen, the oldest first; with their rewards if they have been
        scored.
        """
        return [
            entry.result if isinstance(entry.result, Group) else entry.group
            for entry in self._selectable()
            if not entry.fault
        ]

    def waiting(self) -> list[Group]:
        """The groups that nobody has scored yet, the oldest first."""
        return [entry.group for entry in self._entries.values() if entry.state is State.WAITING]

    def with_rewards(self) -> list[Group]:
        """The groups that may be chosen and have been scored, the oldest first."""
        results = [entry.result for entry in self._selectable()]
        return [result for result in results if isinstance(result, Group)]

    def in_turn(self, groups: Sequence[Group], beside: Iterable[Group] = ()) -> list[Group]:
        """The groups in the order in which they may get places in the training set, see
        `Shares.in_turn`; all of them as they stand where this inbox does not share out.
        """
        return list(groups) if self._shares is None else self._shares.in_turn(groups, beside)

    def scored(self, group: Group, result: Result) -> None:
        """Notes the rewards of a group that waits, or why it has none. A group that was forgotten
        meanwhile stays forgotten.
        """
        entry = self._entries.get(key_of(group))
        if entry is not None and entry.state is State.WAITING and entry.group.id == group.id:
            entry.state, entry.result = State.SCORED, result

    # One round's choice

    def draw(self) -> Draw:
        """Begins a round's choice: it has looked at the groups that could not be scored."""
        draw = Draw()
        draw.look([entry for entry in self._selectable() if entry.fault])
        return draw

    def look(self, draw: Draw, batch: Sequence[Group], score: ScoreGroups) -> list[Group]:
        """Looks at a batch of candidates, has `score` score those that nobody has scored, and
        returns them with their rewards.

        After a group that hung the scorer no other one of its author is scored in this round, or
        considered. A near copy of a group that was looked at before is left out. KeyError if one of
        the batch is no candidate.
        """
        keys = {key_of(group) for group in batch} - draw.entries.keys()
        entries = [self._entries[key] for key in map(key_of, batch) if key in keys]
        hung = draw.hung
        trusted = [entry for entry in entries if entry.group.author not in hung]
        unscored = [entry.group for entry in trusted if entry.state is State.WAITING]
        if unscored:
            for group, result in paired(unscored, score(unscored)):
                self.scored(group, result)
        draw.look(entries)
        scored = list[Group]()
        for group in _groups_of(trusted):
            copied = group.informative and self._copies.is_copy(group)
            (draw.copies if copied else scored).append(group)
        draw.considered += scored
        return scored

    def settle(self, draw: Draw, now: Round) -> list[Verdict]:
        """Ends a round's choice, and returns what the network is told.

        Chosen groups begin to serve. Informative ones that passed the defence and were not chosen
        stay for another round. All others that were looked at are done. Authors of groups that hung
        the scorer are shunned for as long as a group may wait: all their groups are forgotten, and
        none is taken in. ValueError if a group was chosen that the round did not look at.
        """
        chosen = {key_of(group): group for group in draw.chosen}
        if not chosen.keys() <= draw.entries.keys():
            raise ValueError("a sampler chose a group that was not among those it was given")
        self._record(draw)
        kept = {key_of(group) for group in draw.passed if group.informative} - chosen.keys()
        verdicts = []
        for key, entry in draw.entries.items():
            if key not in kept:
                verdicts.append(Verdict(entry.group, key in chosen, draw.faults.get(key, "")))
                self._answered[_name(key)] = None
            if key not in kept and key not in chosen:
                _finish(entry)
        for key, group in chosen.items():
            entry = draw.entries[key]
            entry.state, entry.result = State.SERVING, group
            self._serving.append(entry)
        self._shunned.update(dict.fromkeys(draw.hung, now))
        self._forget([entry for entry in self._selectable() if entry.group.author in self._shunned])
        return verdicts

    def serve(self, wanted: int, now: float, random: Random) -> list[Group]:
        """The groups that serve this round: those just chosen and, where they are fewer than
        `wanted`, some that served before. Where there can be none of these, no random number is
        drawn. `now`: seconds.
        """
        self._retire(now)
        if self._shares is not None:
            self._shares.pass_round(now)
        chosen = [entry for entry in self._serving if not entry.rounds]
        served = [entry for entry in self._serving if entry.rounds]
        missing = wanted - len(chosen)
        again = self._again(served, chosen, missing, random) if missing > 0 and served else []
        for entry in chosen:
            entry.since = now
        for entry in chosen + again:
            entry.rounds += 1
        results = _groups_of(chosen + again)
        if self._shares is not None:
            self._shares.took(results)
        return results

    def _again(
        self, served: Sequence[HeldGroup], chosen: Sequence[HeldGroup], count: int, random: Random
    ) -> list[HeldGroup]:
        """Up to `count` of the groups that served before: drawn by chance, and shared out."""
        if self._shares is None:
            return random.sample(served, min(count, len(served)))
        drawn = random.sample(served, len(served))
        entries = {id(entry.result): entry for entry in drawn}
        in_turn = self._shares.in_turn(_groups_of(drawn), _groups_of(chosen))
        return [entries[id(group)] for group in in_turn[:count]]

    # Comparisons with completions of this node

    def compare(self, groups: Sequence[Group]) -> None:
        """The next round asks the questions of these groups."""
        self._to_ask += groups

    def questions(self) -> list[Question]:
        """Questions of peers to complete in the round that begins. Each is returned once."""
        asked, self._to_ask = {group.question: group for group in self._to_ask}, []
        for question, group in asked.items():
            self._asked[question] = group
        return list(asked)

    def answered(self, answers: Sequence[Group]) -> list[tuple[Group, Group]]:
        """Each local group that answers a question of a peer, with the peer's group."""
        return [
            (local, self._asked.pop(local.question))
            for local in answers
            if local.question in self._asked
        ]

    # Checkpoints

    def snapshot(self) -> dict[str, list[tuple[int, str]]]:
        """Plain data for a checkpoint: the groups that may be chosen, and the names of those that
        must not be taken again.

        Of a group that serves only the name is kept: seconds later it would have served in any
        case. Rewards are left out: the node that goes on may have another verifier.
        """
        held = list(self._entries.values())
        return {
            "waiting": [
                (entry.arrived, f"{entry.group.id.hex()} {entry.group.message().model_dump_json()}")
                for entry in held
                if entry.selectable
            ],
            "spent": [
                (entry.arrived, f"{entry.group.author} {entry.group.question.model_dump_json()}")
                for entry in held
                if not entry.selectable
            ],
            "answered": [(0, name) for name in self._answered],
        }

    def restore(self, snapshot: Mapping[str, Sequence[tuple[int, str]]]) -> None:
        """The inverse of `snapshot`. Waiting groups of version 0.1 have no id and are left out:
        they come again.
        """
        waiting = [(Round(now), text) for now, text in snapshot["waiting"] if text[0] != "{"]
        entries = [HeldGroup(_received(*text.split(" ", 1)), now) for now, text in waiting]
        for now, text in snapshot["spent"]:
            entries.append(HeldGroup(_named(*text.split(" ", 1)), Round(now), State.DONE))
        self._forget(list(self._entries.values()))
        for entry in entries:
            self._add(entry)
        # A checkpoint of version 0.2 has only the names of those that are held
        spent = [_name(entry.key) for entry in entries if entry.state is State.DONE]
        for name in [*spent, *(name for _, name in snapshot.get("answered", ()))]:
            self._answered[name] = None

    # What the methods above share

    def _selectable(self) -> list[HeldGroup]:
        return [entry for entry in self._entries.values() if entry.selectable]

    def _has_come(self, key: Key) -> bool:
        return key in self._entries or _name(key) in self._answered

    def _add(self, entry: HeldGroup) -> None:
        self._entries[entry.key] = entry
        self._arrived += 1

    def _forget(self, entries: Sequence[HeldGroup]) -> None:
        """Takes these out of the inbox. One that serves goes on serving, but may arrive again."""
        for entry in entries:
            del self._entries[entry.key]
            self._forgotten += entry.state is not State.SERVING

    def _over_quota(self) -> list[HeldGroup]:
        """The oldest groups that are too many, in all or of their author."""
        of_author: Counter[PeerId] = Counter()
        over = list[HeldGroup]()
        kept = 0
        for entry in reversed(self._selectable()):  # the newest stay
            of_author[entry.group.author] += 1
            if of_author[entry.group.author] > self._max_per_peer or kept >= self._max_groups:
                over.append(entry)
            else:
                kept += 1
        return over

    def _retire(self, now: float) -> None:
        """Ends the service of groups that served often or long enough."""
        serving, self._serving = self._serving, []
        for entry in serving:
            late = now - entry.since > self._seconds
            if not entry.rounds or (entry.rounds < self._rounds and not late):
                self._serving.append(entry)
            elif self._entries.get(entry.key) is entry:
                _finish(entry)
            else:
                self._forgotten += 1

    def _record(self, draw: Draw) -> None:
        """Adds what a round found to the records of the authors."""
        for group in draw.considered + draw.copies:
            self._count(group.author, scored=1, informative=group.informative)
            record = self._peers[group.author]
            mean, reward = record.reward or 0.0, fmean(group.rewards)
            mean += (reward - mean) / record.scored
            self._peers[group.author] = replace(record, reward=mean)
        for refused in draw.refused:
            self._count(refused.author, refused=1)
        for group in draw.chosen:
            self._count(group.author, chosen=1)
        for author, _ in draw.faults:
            self._count(author, unscored=1)

    def _count(self, author: PeerId, **more: int) -> None:
        record = self._peers.get(author, PeerRecord())
        added = {name: getattr(record, name) + count for name, count in more.items()}
        self._peers[author] = replace(record, **added)


def key_of(group: Group) -> Key:
    """The name of a group: its author, and the question that it answers."""
    return group.author, group.question


def _name(key: Key) -> str:
    """A short name of an author and a question, to be remembered."""
    author, question = key
    text = f"{author} {question.model_dump_json()}"
    return blake2b(text.encode(), digest_size=NAME_BYTES).hexdigest()


def _groups_of(entries: Sequence[HeldGroup]) -> list[Group]:
    results = [entry.result for entry in entries]
    return [result for result in results if isinstance(result, Group)]


def _finish(entry: HeldGroup) -> None:
    """Ends the life of a group in the inbox: only its name stays."""
    entry.state, entry.result = State.DONE, None
    entry.group = replace(entry.group, samples=())


def _received(name: str, text: str) -> Group:
    return Group.received(RolloutGroup.model_validate_json(text), bytes.fromhex(name))


def _named(author: str, text: str) -> Group:
    """A group of which only the name is known."""
    return Group(PeerId(author), Round(0), Question.model_validate_json(text))
