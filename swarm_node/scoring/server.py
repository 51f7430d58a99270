"""The scoring process: rebuilds questions and has completions scored, away from the node's memory,
keys and torch.

`client.py` starts it as `python -s -P -B -m swarm_node.scoring.server SOURCE SCORERS LIFELINE
MEMORY TIME BOUND`, with a clean environment, PYTHONHASHSEED=0 and a socket as standard input. These
arguments alone choose what is loaded. It never reads a text of a peer. Children score the texts
(`children.py`): forked from here where the source's item scores, from the fork server where a
scorer of the module SCORERS does; SCORERS may be empty. BOUND is `bounded` or `free`: whether texts
that say more than an answer are paid like empty ones (`bound.py`). `cohort` says whose texts may
share a child. One reply per item, in order.

Frames in:  [[dataset, config id, seed, index, asked], ...]
            asked: null for the prompt, [] for the answer, [text, ...] to score, or episodes to
            play: [[turn, ...], ...] turn: [text, [[name of a tool, arguments], ...]]
Frames out: first {"version": ...}, then per item "prompt", "answer", [score, ...], {"skipped":
reason}, or
            {"played": [[observations, done, score] or "why it was left", ...]}
"""

import gc
import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from itertools import starmap
from typing import Any, Literal, cast

from swarm_node.common import loading
from swarm_node.scoring import children, contract
from swarm_node.scoring.bound import Bounded
from swarm_node.scoring.building import Address, Builder
from swarm_node.scoring.children import ForkServer
from swarm_node.scoring.confinement import allow_cpu, confine, die_with, silence
from swarm_node.scoring.contract import (
    BOUNDED,
    Asked,
    Call,
    Episode,
    EpisodeSource,
    Item,
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


def load(target: str) -> Source | EpisodeSource:
    """A source by its place (common/loading.py): a module, or an object of a class. PLACE?ARGUMENT
    hands the class an argument.
    """
    place, asked, argument = target.partition("?")
    made = loading.load(place)
    return cast(
        Source | EpisodeSource, made(*[argument] * bool(asked)) if isinstance(made, type) else made
    )


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


class ScoringServer:
    """Builds questions and scores answers to them, batch by batch."""

    def __init__(
        self,
        source: Source | EpisodeSource,
        sandbox: Sandbox,
        forkserver: ForkServer | None,
        time_limit: float,
        bounded: bool = True,
    ) -> None:
        """`forkserver`: None where the environment has no scorers beside its source. `bounded`:
        whether a text beside the answer is unpaid (`bound.py`).
        """
        self._bounded = bounded
        self._sandbox, self._light, self._time_limit = sandbox, forkserver, time_limit
        self._scorers = forkserver.scorers if forkserver else None
        self._builder = Builder(source)

    def serve(self, connection: socket.socket) -> None:
        """Answers batches until the node closes its end."""
        reader = Reader(connection.recv)
        while (batch := reader.read()) is not None:
            asked = [
                ((dataset, config_id, seed, k), _asked(said))
                for dataset, config_id, seed, k, said in batch
            ]
            for begin in range(0, len(asked), contract.CHILD_ITEMS):
                allow_cpu(contract.CHILD_ITEMS)
                replies = self.replies(asked[begin : begin + contract.CHILD_ITEMS])
                connection.sendall(b"".join(map(encode, replies)))

    def replies(self, asked: Sequence[tuple[Address, Asked]]) -> list[Reply]:
        """One reply per question, in order. At most as many questions as one child may score."""
        built = [self._builder.build(address) for address, _ in asked]
        replies = [_told(item, texts) for item, (_, texts) in zip(built, asked, strict=True)]
        together: dict[Cohort, list[tuple[int, children.Work]]] = {}
        for place, (item, (address, texts)) in enumerate(zip(built, asked, strict=True)):
            if not isinstance(item, str) and texts:
                together.setdefault(cohort(address, item, self._scorers), []).append(
                    (place, (item, texts))
                )
        for (where, _), members in together.items():
            verdicts = self._score(where, [pair for _, pair in members])
            for (place, (_, given)), verdict in zip(members, verdicts, strict=True):
                said = {"played": verdict} if children.episodes(given) else verdict
                replies[place] = skipped(verdict) if isinstance(verdict, str) else cast(Reply, said)
        return replies

    def _score(self, where: Where, work: Sequence[children.Work]) -> list[children.Verdict]:
        if where == "forkserver":
            assert self._light is not None
            texts_of = [(portable(item), cast(Sequence[str], texts)) for item, texts in work]
            return self._light.score([(key, texts) for key, texts in texts_of if key])
        if self._bounded:
            work = [
                (item if children.episodes(asked) else Bounded(cast(Item, item)), asked)
                for item, asked in work
            ]
        return children.score(work, self._sandbox, self._time_limit)


def cohort(address: Address, item: Item | Episode, scorers: Scorers | None) -> Cohort:
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


def portable(item: Item | Episode) -> Key | None:
    """The key by which the fork server can score; None where the item itself has to score."""
    found: Key | None = getattr(item, "portable", None)
    return found


def _asked(said: Any) -> Asked:
    """What the node asks of a question."""
    if not said or isinstance(said[0], str):
        return cast(Asked, said)
    return tuple(
        tuple(Turn(text, tuple(starmap(Call, calls))) for text, calls in turns) for turns in said
    )


def _told(item: Item | Episode | str, texts: Asked) -> Reply:
    """The reply to a question: why there is none, its answer, or its prompt, which scores or
    episodes may replace.
    """
    if isinstance(item, str):
        return skipped(item)
    if texts is None or texts:
        return str(item.prompt)
    return str(item.answer) if isinstance(item, contract.Shown) else skipped(contract.NOT_SHOWN)


def skipped(reason: str) -> Reply:
    """The reply for a group that is left out."""
    return {"skipped": reason}


if __name__ == "__main__":
    main()
