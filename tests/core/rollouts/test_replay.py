"""Episodes of peers, played again by a real environment in a process of its own."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import count
from random import Random

import pytest

from protocol import codec
from protocol.admission import AdmissionRules, admit
from protocol.messages import Call, Episode, PeerId, Reason, Rejected, RolloutGroup, Round, Turn
from swarm_node.environments.rewards import RewardRule
from swarm_node.environments.scored import Mixture, ScoredEnvironment
from swarm_node.network.process.messages import Rules
from swarm_node.node.episodes import JUDGED, LEFT, Divergence
from swarm_node.node.round import score_external
from swarm_node.rollouts.groups import Group, Played, Skipped
from swarm_node.rollouts.inbox import Inbox, key_of
from swarm_node.rollouts.scoring_ahead import ScoringAhead
from swarm_node.scoring.client import ScoringClient
from tests.core.scoring.hostile_episodes import probe, turns
from tests.core.scoring.test_playing import HOSTILE
from tests.models import IDENTITIES

TASKS, DIVERGED = {"talk": ("any", "other")}, Skipped("diverged")
PEERS = [identity.peer_id for identity in IDENTITIES]


def environment() -> ScoredEnvironment:
    scoring = ScoringClient(HOSTILE, "hostile-1", 5.0, memory_limit=512)
    common = "e", "hostile-1", TASKS, ["talk/any"], scoring, RewardRule("graded")
    made = ScoredEnvironment(*common, turns=turns, probe=probe)
    made.swarm = "s"
    return made


@pytest.fixture(scope="module")
def ours() -> Iterator[Mixture]:
    with closing(Mixture({"e": environment()})) as made:
        yield made


@pytest.fixture(scope="module")
def theirs() -> Iterator[Mixture]:
    with closing(Mixture({"e": environment()})) as made:
        yield made


def said(*texts: str) -> tuple[Turn, ...]:
    """Turns with these texts. A text that begins with { is also what the turn hands to a tool."""
    calls = [(Call(name="half", arguments=text),) * (text[0] == "{") for text in texts]
    return tuple(Turn(calls=call, text=text) for call, text in zip(calls, texts, strict=True))


EPISODES = [
    said("a", "b"),
    said('{"number":3}', "b", "end"),
    said("nothing"),
    said("a", "{", "c", "d"),
]


def group(
    environment: Mixture, author: PeerId = PEERS[1], episodes: Sequence[tuple[Turn, ...]] = EPISODES
):
    """A group as an honest peer makes it."""
    (question,) = environment.sample(author, Round(0), 1)
    (plays,) = environment.play([(question, episodes)])
    told = [
        (each, played.trace if len(each) > 1 else "")
        for each, played in zip(episodes, plays, strict=True)
    ]
    made = tuple(Episode(ended=True, trace=trace, turns=each) for each, trace in told)
    return Group.of_text(author, Round(0), question, made).message()


def external(of: RolloutGroup) -> Group:
    return Group.received(of, codec.content_hash(codec.encode(of)))


def forged(of: RolloutGroup, number: int) -> RolloutGroup:
    """The group with invented traces in its first `number` episodes; those without a trace are left
    out.
    """
    wrong = [
        each.model_copy(update={"trace": "A" * 11}) for each in of.episodes[:number] if each.trace
    ]
    return of.model_copy(update={"episodes": (*wrong, *of.episodes[number:])})


def test_another_process_plays_an_honest_group_to_the_same_end_and_rewards_it_itself(
    ours, theirs
) -> None:
    sent = group(theirs)
    (scored,) = score_external(ours, [external(sent)])
    assert isinstance(scored, Group) and scored.message() == sent and scored.tokens is None
    assert (scored.rewards, scored.prompt) == ((0.25, 0.375, 0.125, 0.5), "say something")
    (plays,) = theirs.play([(sent.question, EPISODES)])
    assert scored.observations == tuple(
        played.observations for played in plays if isinstance(played, Played)
    )
    assert scored.observations[1][0] == ("1.5",) and scored.observations[1][2] == ()
    assert ours.catalogue.turns(sent.question) == 8
    assert ours.catalogue.turns(sent.question.model_copy(update={"environment": "x"})) == 1


def test_what_goes_otherwise_here_is_dropped_and_two_have_to_stay(ours, theirs) -> None:
    sent = group(theirs)
    (scored,) = score_external(ours, [external(forged(sent, 2))])
    assert isinstance(scored, Group)
    assert (scored.episodes, scored.rewards) == (sent.episodes[2:], (0.125, 0.5))
    late = sent.episodes[1].model_copy(update={"turns": said('{"number":3}', "b", "end", "more")})
    two = sent.model_copy(update={"episodes": (late, sent.episodes[0])})
    assert score_external(ours, [external(forged(sent, 4)), external(two)]) == [DIVERGED, DIVERGED]
    hung = sent.model_copy(update={"episodes": (sent.episodes[0], Episode.of("die", True))})
    assert score_external(ours, [external(hung)]) == [Skipped("scoring crashed")]


def test_an_author_whose_episodes_diverge_is_left_for_an_hour_and_three_such_blame_this_node(
    ours, theirs
) -> None:
    told, now = list[list[str]](), [0.0]
    divergence = Divergence(lambda: now[0], told.append)

    def results(number: int, *authors: int) -> list[Group | Skipped]:
        sent = [external(forged(group(theirs, PEERS[each]), number)) for each in authors]
        return score_external(ours, sent, divergence)

    for _ in range(JUDGED):
        assert isinstance(results(1, 1)[0], Group)  # a quarter of its episodes diverge
    for _ in range(JUDGED // 3 + 1):  # such a group has three episodes, all of several turns
        assert results(4, 2) == [DIVERGED]
    assert results(0, 2) == [DIVERGED] and isinstance(results(0, 3)[0], Group), (
        "left without a look"
    )
    assert told == []
    for _ in range(JUDGED // 3 + 1):
        results(4, 4, 5)
    assert told == [["talk/any"]]
    now[0] = LEFT
    assert isinstance(results(0, 2)[0], Group) and told == [["talk/any"], []]


def test_a_node_that_scores_ahead_replays_and_charges_nobody_for_what_diverged(
    ours, theirs
) -> None:
    ahead = ScoringAhead(
        partial(score_external, ours), map(float, count(step=100)).__next__, Random(0)
    )
    inbox = Inbox(PEERS[0])
    inbox.arrive([external(group(theirs)), external(forged(group(theirs, PEERS[2]), 4))], Round(0))
    honest, forger = inbox.waiting()
    for _ in range(99):  # budget is earned round by round
        ahead.candidates(inbox, 2, [])
        while ahead.work():
            pass
    candidates = ahead.candidates(inbox, 2, [])
    assert [group.id for group in candidates] == [honest.id]
    assert inbox.draw().faults == {key_of(forger): "diverged"}


@pytest.mark.parametrize(
    ("most", "reason"), [(1, Reason.SEVERAL_TURNS), (3, Reason.SEVERAL_TURNS), (4, None)]
)
def test_episodes_are_admitted_where_so_many_turns_are_played(
    theirs, most: int, reason: Reason | None
) -> None:
    sent = group(theirs)
    rules = AdmissionRules("s", PEERS[0], knows=theirs.catalogue.knows, turns=lambda question: most)
    assert admit(codec.seal(sent, IDENTITIES[1], "s"), rules) == (
        Rejected(reason) if reason else sent
    )


def test_the_network_process_is_told_how_many_turns_are_played(theirs) -> None:
    rules = Rules.model_validate_json(Rules.of("s", theirs.catalogue).model_dump_json()).admission(
        PEERS[0]
    )
    asked = group(theirs).question
    assert (rules.turns(asked), rules.knows(asked)) == (8, True)


def test_the_digest_of_a_task_says_what_the_environment_answers_to_its_probe(ours, theirs) -> None:
    (one,), (other,) = ours.sample(PEERS[0], Round(0), 1), theirs.sample(PEERS[0], Round(0), 1)
    made = environment()
    made._probes = made._probes[:1]
    with closing(made):
        assert one == other and made.digest(("talk", "any")) != one.digest
    assert ours.play([(one.model_copy(update={"digest": "A" * 11}), EPISODES)]) == [
        Skipped("other environment")
    ]
