"""What does an honest node lose that publishes more than the others, where places are shared out?

    python -m lab.studies.quick_author --json    # docs/results/shares.md; a minute of a core

Nobody gets more places in a training set than the median of the others had (`rollouts/shares.py`).
That stops a flooder, and it also stops an honest node whose rounds are quicker than those of the
others. Four authors publish some groups in each round of the receiver, and a fifth four times as
many. Every group is informative. The receiver has four places for external groups. A group serves
one round where rounds are slow, and up to six where they take half a second.

The inbox is that of a node; nothing is trained. Each line is compared with an inbox that draws by
chance.
"""

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from lab.benchmarks import command
from protocol import codec
from protocol.messages import Episode, PeerId, Question, Round
from swarm_node.rollouts.groups import Group
from swarm_node.rollouts.inbox import Inbox
from swarm_node.rollouts.shares import Shares, party_of

OTHERS = ("ann", "bob", "cat", "dan")
QUICK = "quick"
TIMES = 4.0  # as many groups as each of the others
WANTED = 4  # external groups of a round
RATES = (0.25, 0.5, 1.0, 2.0)  # groups of each of the others in a round of the receiver
# What a line is called -> rounds that a group serves, and seconds of a round
PACES: Mapping[str, tuple[int, float]] = {"slow": (1, 30.0), "quick": (6, 0.5)}


@dataclass(frozen=True)
class Taken:
    """What a receiver trained on in all its rounds.

    Attributes:
        filled: places that had a group, of WANTED.
        share: of the filled places, those with a group of the quick author.
        used: of the quick author's groups, those that were trained on at all.
        used_of_others: the same for the groups of the others.
    """

    filled: float
    share: float
    used: float
    used_of_others: float


def published(author: str, now: int, index: int) -> Group:
    """An informative group, as a node has it that has scored it."""
    question = Question(
        environment="e",
        version="1",
        dataset="d",
        config_id="c",
        digest="A" * 11,
        seed=now,
        index=index,
    )
    episodes = (Episode.of(text="4", ended=True), Episode.of(text="5", ended=True))
    made = Group.of_text(PeerId(author), Round(now), question, episodes)
    group = Group.received(made.message(), codec.content_hash(codec.encode(made.message())))
    return replace(group, prompt="2+2=").scored((0.0, 1.0))


def supply(rng: Random, now: int, rates: Mapping[str, float]) -> list[Group]:
    """What arrives in a round: of each author so many groups on average."""
    arriving = list[Group]()
    for author, rate in rates.items():
        count = int(rate) + (rng.random() < rate % 1.0)
        arriving += [published(author, now, index) for index in range(count)]
    return arriving


def taken(rate: float, pace: str, shared_out: bool, rounds: int, seed: int) -> Taken:
    """Lets a receiver live through so many rounds."""
    serves, seconds = PACES[pace]
    rng = Random(seed)
    inbox = Inbox(PeerId("me"), serves, 5.0, shares=Shares() if shared_out else None)
    rates = {**dict.fromkeys(OTHERS, rate), QUICK: TIMES * rate}
    places, sent, used = Counter[str](), Counter[str](), Counter[str]()
    for now in range(rounds):
        arriving = supply(rng, now, rates)
        sent.update(map(party_of, arriving))
        inbox.arrive(arriving, Round(now))
        draw = inbox.draw()
        waiting = inbox.candidates()
        order = inbox.in_turn(rng.sample(waiting, len(waiting)))
        looked = inbox.look(draw, order[:WANTED], scored)
        draw.passed, draw.chosen = looked, looked
        used.update(map(party_of, looked))
        inbox.settle(draw, Round(now))
        places.update(map(party_of, inbox.serve(WANTED, seconds * now, rng)))
    return Taken(
        filled=places.total() / (WANTED * rounds),
        share=places[QUICK] / places.total(),
        used=used[QUICK] / sent[QUICK],
        used_of_others=sum(used[name] for name in OTHERS) / sum(sent[name] for name in OTHERS),
    )


def scored(groups: Sequence[Group]) -> list[Group]:
    """All of them arrive with rewards."""
    return list(groups)


def main() -> None:
    parser = command.parser("lab.studies.quick_author", __doc__)
    parser.add_argument("--rounds", type=int, default=2000, help="of the receiver (2000)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    found = measured(options)
    lines = [
        [str(line["pace"]), f"{line['rate']:g}", *(f"{line[key]:.2f}" for key in FIGURES)]
        for line in found
    ]
    command.show(["rounds of the receiver", "groups of each other", *FIGURES], lines)
    command.finish(options, {"lines": found, "rounds": options.rounds})


FIGURES = (
    "filled",
    "filled by chance",
    "share",
    "share by chance",
    "used",
    "used by chance",
    "used of others",
)


def measured(options: argparse.Namespace) -> list[dict[str, float | str]]:
    """A line for each pace and rate."""
    lines = list[dict[str, float | str]]()
    for pace in PACES:
        for rate in RATES:
            ours = taken(rate, pace, True, options.rounds, options.seed)
            chance = taken(rate, pace, False, options.rounds, options.seed)
            line: dict[str, float | str] = {"pace": pace, "rate": rate}
            line |= {"filled": ours.filled, "filled by chance": chance.filled}
            line |= {"share": ours.share, "share by chance": chance.share}
            line |= {"used": ours.used, "used by chance": chance.used}
            line |= {"used of others": ours.used_of_others}
            lines.append(line)
    return lines


if __name__ == "__main__":
    main()
