"""Groups and cards as nodes publish them, for fuzzing with hostile peers and for studies of
networks.
"""

import os
from collections.abc import Sequence
from functools import reduce
from typing import Any

from protocol import codec
from protocol.addressing import question_seed
from protocol.card import DAY, Card, Signed, Task, network_id, sign
from protocol.identity import Identity
from protocol.messages import Episode, Question, RolloutGroup, Round
from swarm_node.rollouts.groups import Group

GROUPS, GROUP_BYTES, WANTED = 9, 10_000, 4
COMPLETIONS = 8
START_SECONDS = 120.0


def group(swarm: str, identity: Identity, number: int, index: int) -> RolloutGroup:
    """10 KB of incompressible text, in 8 completions."""
    text = os.urandom(GROUP_BYTES // COMPLETIONS // 2).hex()
    seed = question_seed(swarm, identity.peer_id, Round(number))
    address = {
        "environment": "benchmark",
        "version": "1",
        "dataset": "noise",
        "config_id": "plain",
        "digest": "A" * 11,
    }
    question = Question(**address, seed=seed, index=index)
    completions = tuple(Episode.of(text=f"{k}{text}", ended=True) for k in range(COMPLETIONS))
    return Group.of_text(identity.peer_id, Round(number), question, completions).message()


def cards(count: int, issued: int = 0, bootstrap: Sequence[str] = ()) -> list[bytes]:
    """Cards of one network, by two of three signers. Each card replaces one signer: card 4 has none
    of the first.
    """
    chain, signers = (
        list[bytes](),
        [Identity.from_seed_bytes(bytes([1 + number]) * 32) for number in range(count + 2)],
    )
    task = Task(
        environment="benchmark", version="1", dataset="noise", config_id="plain", digest="A" * 11
    )
    said: dict[str, Any] = {
        "threshold": 2,
        "notes": "",
        "tasks": (task,),
        "episodes": 64,
        "characters": 16384,
    }
    said |= {"name": "benchmark", "network": "", "issued": issued, "expires": issued + DAY}
    said["bootstrap"] = tuple(bootstrap) or (f"/ip4/8.8.4.4/tcp/1/p2p/{signers[0].peer_id}",)
    for number in range(1, count + 1):
        ids = tuple(sorted(each.peer_id for each in signers[number - 1 : number + 2]))
        card = Card(**said, format=1, number=number, signers=ids)
        said["network"] = network_id(card)
        both = signers[number - 1 : number + 1]  # signers of the card before, too
        chain.append(codec.encode(reduce(sign, both, Signed(card=card, signatures={}))))
    return chain


def progress() -> dict[str, Any]:
    """The progress that a stand-in for the trainer reports."""
    return {"published": 0, "seconds_since": 0.0}
