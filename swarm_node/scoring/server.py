"""The scoring process: rebuilds questions and has episodes played, away from the node's memory,
keys and torch.

Theory of operation
===================

Text of peers is scored here, and some of it was written to take over whoever reads it. So the work
is spread over processes, and each of them trusts the next one less:

    node              scoring process               fork server, only where the environment
    client.py         server.py                     brings a module of `Scorers`
       |                 |                             |
       | frames          | builds questions            | has the scorers, and no source
       +---------------->+-------- texts, keys ------->+
       |                 |                             |
       |              fork|                         fork|
       |                 v                             v
       |              child: the item scores texts, child: a scorer scores texts
       |              or the episode is played
       |                 | bytes                       | bytes
       |<-- one reply ---+<--------- scores -----------+
            per item

These hold throughout:

- Only children look into a text of a peer. The processes above hand it on.
- A child lives for one call. What one text did to it changes nothing that is scored later.
- Which texts may share a child, `cohort` says: those of all authors where a plain scorer compares
  strings; else those of one author, who could forge no scores but its own.
- There is one reply per item, in order. An item at which a child hangs or dies is skipped, alone.
- A parent bounds what a child writes before it reads it, and checks every value.

Every question is an episode. A source whose questions have one turn has an `Item` with a scorer of
texts, and `lifted` makes it playable: the texts of its turns are scored, many items in one child,
and in the fork server where it can. That is much faster than to play each episode, and nobody
outside of this process has to know. Children are described in children.py, and how they play in
playing.py.

How it is started
=================

`client.py` starts it as `python -s -P -B -m swarm_node.scoring.server SOURCE SCORERS LIFELINE
MEMORY TIME BOUND`, with a clean environment, PYTHONHASHSEED=0 and a socket as standard input. These
arguments alone choose what is loaded. SCORERS may be empty. BOUND is `bounded` or `free`: whether
texts that say more than an answer are paid like empty ones (`bound.py`).

Frames in:  [[dataset, config id, seed, index, asked], ...]
            asked: null for the prompt, [] for the answer, or episodes to play: [[turn, ...], ...]
            turn: [text, [[name of a tool, arguments], ...]]
            or [text, ...]: episodes of one turn, as short as they can be
Frames out: first {"version": ...}, then per item "prompt", "answer", {"skipped": reason}, or
            {"played": [[observations, done, score] or "why it was left", ...]}
            or [score, ...]: of episodes of one turn, for a source that has an item for a question
"""

import gc
import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import Any, Literal, cast

from swarm_node.common import loading
from swarm_node.common.batched import paired
from swarm_node.scoring import children, contract
from swarm_node.scoring.bound import Bounded
from swarm_node.scoring.building import Address, Builder
from swarm_node.scoring.children import ForkServer
from swarm_node.scoring.confinement import allow_cpu, confine, die_with, silence
from swarm_node.scoring.contract import (
    BOUNDED,
    Asked,
    Call,
    Episodes,
    Item,
    ItemSource,
    Playable,
    Reader,
    Scorers,
    Source,
    Turn,
    encode,
)
from swarm_node.scoring.sandbox import Sandbox

Reply = str | list[float] | dict[str, Any]
Key = tuple[str, Mapping[str, Any]]  # name of a scorer and what it needs to know
Where = Literal["forkserver", "here"]
# From which process a child is forked, and for whom: a seed, or None for everybody
Cohort = tuple[Where, int | None]


def main() -> None:
    """The whole life of a scoring process: confine itself, load the source, answer until the node
    hangs up.
    """
    if len(sys.argv) == 2:
        return declare(sys.argv[1])
    source_name, scorers_name, lifeline, memory, time_limit, bound = sys.argv[1:]
    die_with(int(lifeline))
    confine(int(memory))
    allow_cpu(60)  # for imports
    sandbox = Sandbox()
    forkserver = None
    if scorers_name:  # before the library is loaded, which makes a process heavy to fork
        scorers = cast(Scorers, loading.load(scorers_name))
        forkserver = ForkServer(scorers, sandbox, float(time_limit), int(lifeline))
    connection = socket.socket(fileno=os.dup(0))
    source = load(source_name)
    # Only now: until here the node reads standard error, to tell the user what is missing
    silence()
    gc.collect()
    # A collection would look at the library's 100,000 objects, and so copy them into every child
    gc.freeze()
    connection.sendall(encode({"version": source.version}))
    server = ScoringServer(source, sandbox, forkserver, float(time_limit), bound == BOUNDED)
    server.serve(connection)


def load(target: str) -> Source | ItemSource:
    """A source by its place (common/loading.py): a module, or an object of a class. PLACE?ARGUMENT
    hands the class an argument.
    """
    place, has_argument, argument = target.partition("?")
    loaded = loading.load(place)
    if isinstance(loaded, type):
        loaded = loaded(argument) if has_argument else loaded()
    return cast(Source | ItemSource, loaded)


def declare(target: str) -> None:
    """Prints what an environment from outside says of itself, as one JSON object on standard
    output.
    """
    out = os.dup(1)
    os.dup2(2, 1)  # what the import prints goes to standard error
    source = load(target)
    facts = {
        "name": source.name,
        "version": source.version,
        "tasks": {dataset: list(config_ids) for dataset, config_ids in source.tasks.items()},
        "turns": getattr(source, "turns", 1),
        "probe": getattr(source, "probe", ()),
    }
    os.write(out, json.dumps(facts).encode())


NOT_YET: Reply = ""  # the reply to a question until a child has judged what was asked of it


@dataclass(slots=True)
class Pending:
    """A question of a batch, until it has its reply."""

    address: Address
    reply: Reply
    work: children.Work | None = None  # what a child has to score or to play


class ScoringServer:
    """Builds questions and scores answers to them, batch by batch."""

    def __init__(
        self,
        source: Source | ItemSource,
        sandbox: Sandbox,
        forkserver: ForkServer | None,
        time_limit: float,
        bounded: bool = True,
    ) -> None:
        """`forkserver`: None where the environment has no scorers beside its source. `bounded`:
        whether a text next to the answer is unpaid (`bound.py`).
        """
        self._bounded = bounded
        self._sandbox, self._light, self._time_limit = sandbox, forkserver, time_limit
        self._scorers = forkserver.scorers if forkserver else None
        self._builder = Builder(source)

    def serve(self, connection: socket.socket) -> None:
        """Answers batches until the node closes its end."""
        reader = Reader(connection.recv)
        while (batch := reader.read()) is not None:
            asked: list[tuple[Address, Asked]] = []
            for dataset, config_id, seed, index, said in batch:
                address = dataset, config_id, seed, index
                asked.append((address, asked_of(said)))
            for begin in range(0, len(asked), contract.CHILD_ITEMS):
                allow_cpu(contract.CHILD_ITEMS)
                replies = self.replies(asked[begin : begin + contract.CHILD_ITEMS])
                connection.sendall(b"".join(map(encode, replies)))

    def replies(self, asked: Sequence[tuple[Address, Asked]]) -> list[Reply]:
        """One reply per question, in order. At most as many questions as one child may score."""
        all_pending = [self._pending(address, given) for address, given in asked]
        cohorts: dict[Cohort, list[tuple[Pending, children.Work]]] = {}
        for pending in all_pending:
            if pending.work is not None:
                item, _ = pending.work
                together = cohort(pending.address, item, self._scorers)
                cohorts.setdefault(together, []).append((pending, pending.work))
        for (where, _), members in cohorts.items():
            verdicts = self._score(where, [work for _, work in members])
            for (pending, work), verdict in paired(members, verdicts):
                pending.reply = _judged(work, verdict)
        return [pending.reply for pending in all_pending]

    def _pending(self, address: Address, given: Asked) -> "Pending":
        """The question, built, with what a child has to do for its reply."""
        item = self._builder.build(address)
        if isinstance(item, str):
            return Pending(address, skipped(item))
        if not given:
            return Pending(address, _shown(item, answer=given is not None))
        work: children.Work | None = (item, given)
        if not self._builder.plays:
            work = lifted(item, given)
        if work is None:
            return Pending(address, skipped(contract.AFTER_THE_END))
        return Pending(address, NOT_YET, work)

    def _score(self, where: Where, work: Sequence[children.Work]) -> list[children.Verdict]:
        if where == "forkserver":
            assert self._light is not None
            texts_of = [(portable(item), cast(Sequence[str], texts)) for item, texts in work]
            return self._light.score([(key, texts) for key, texts in texts_of if key])
        if self._bounded:
            work = list(starmap(_with_bound, work))
        return children.score(work, self._sandbox, self._time_limit)


def cohort(address: Address, item: Item | Playable, scorers: Scorers | None) -> Cohort:
    """Items of the same cohort are scored in one child: all that have a plain scorer; else those of
    one author only.

    A plain scorer of ours does nothing with an answer but compare strings and read numbers, so an
    answer can take over nothing; one at which the child hangs or dies all the same costs its own
    group alone. The library's scorers, and ours that hand the answer to a parser, get a child per
    author: what an author could forge there, in its own groups, it could forge directly. A seed
    stands for an author: it is a digest of author and round that admission checks.
    """
    key, (_, _, seed, _) = portable(item), address
    if scorers is None or key is None:
        return "here", seed
    return "forkserver", None if key[0] in scorers.PLAIN else seed


def lifted(item: Item | Playable, given: tuple[str, ...] | Episodes) -> children.Work | None:
    """What a child does with a question of one turn: its item scores the texts of these episodes.
    None where an episode has more than a text.
    """
    texts = texts_of(given)
    return None if texts is None else (item, texts)


def texts_of(given: tuple[str, ...] | Episodes) -> Sequence[str] | None:
    """The texts of episodes of one turn; None where an episode has more than a text."""
    if not children.episodes(given):
        return cast(Sequence[str], given)
    texts = [turns[0].text for turns in given if contract.is_plain(turns)]
    return texts if len(texts) == len(given) else None


def portable(item: Item | Playable) -> Key | None:
    """The key by which the fork server can score; None where the item itself has to score."""
    found: Key | None = getattr(item, "portable", None)
    return found


def asked_of(said: Any) -> Asked:
    """What the node asks of a question, in a frame of ours."""
    if not said or isinstance(said[0], str):
        return cast(Asked, said)
    return tuple(tuple(starmap(_turn_of, turns)) for turns in said)


def _turn_of(text: str, calls: Sequence[Sequence[str]]) -> Turn:
    return Turn(text, tuple(starmap(Call, calls)))


def _with_bound(
    item: Item | Playable, asked: Sequence[str] | Sequence[Sequence[Turn]]
) -> children.Work:
    """The same work; a text that says more than its answer is paid as an empty one."""
    if children.episodes(asked):
        return item, asked
    return Bounded(cast(Item, item)), asked


def _shown(item: Item | Playable, *, answer: bool) -> Reply:
    """The prompt of a question or, if that is asked, its answer."""
    if not answer:
        return str(item.prompt)
    return str(item.answer) if isinstance(item, contract.Shown) else skipped(contract.NOT_SHOWN)


def _judged(work: children.Work, verdict: children.Verdict) -> Reply:
    """The reply that a child's verdict makes."""
    if isinstance(verdict, str):
        return skipped(verdict)
    _, given = work
    return cast(Reply, {"played": verdict} if children.episodes(given) else verdict)


def skipped(reason: str) -> Reply:
    """The reply for a group that is skipped."""
    return {"skipped": reason}


if __name__ == "__main__":
    main()
