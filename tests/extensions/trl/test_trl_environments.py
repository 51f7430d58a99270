"""Environments written for TRL, as nodes play them; and those that a peer could not play again."""

from contextlib import closing
from pathlib import Path

import pytest

from protocol.messages import Call, PeerId, Question, Round, Turn
from swarm_node.common.errors import UserError
from swarm_node.environments.plugged import PluggedKind
from swarm_node.environments.registry import build_environment, kinds
from swarm_node.environments.scored import Mixture
from swarm_node.rollouts.groups import Played, Skipped
from swarm_node.settings import NodeConfig

FILE = Path(__file__).with_name("trl_environments.py")


def started(name: str) -> Mixture:
    return build_environment(NodeConfig.model_validate({"environment": {"use": [f"trl:{FILE}:{name}"]}}))


def plays_of(environment: Mixture, *asked: tuple[Question, list[tuple[Turn, ...]]]) -> list[Played | Skipped]:
    plays = environment.play(asked)
    return [each for group in plays if not isinstance(group, Skipped) for each in group]


def calls(name: str, *arguments: str) -> tuple[Turn, ...]:
    return tuple(Turn(text="", calls=(Call(name=name, arguments=each),)) for each in arguments)


def heard(played: Played | Skipped) -> tuple[list[str], bool, float]:
    assert isinstance(played, Played), played
    return [text for turn in played.observations for text in turn], played.done, played.score


@pytest.mark.slow
def test_a_counter_of_a_data_set_is_played_by_its_tools_and_scored_by_itself() -> None:
    with closing(started("Counter")) as environment:
        asked = environment.sample(PeerId("me"), Round(0), 8)
        prompts = [str(prompt) for prompt in environment.prompts(asked)]
        held_out = {str(each) for each in environment.prompts(environment.sample(PeerId("evaluation"), Round(0), 64))}
        assert len(set(prompts)) > 3 and not held_out & set(prompts) and environment.turns(asked[0]) == 16
        opening, how, tool = prompts[0].splitlines()
        target = int(opening.removeprefix("Count to ").removesuffix("."))
        assert how.startswith("Call a tool by <call>") and tool == "- increment(step): Add to the counter."
        right = (*calls("increment", '{"step": 1}', f'{{"step": {target - 1}}}'), Turn(text="done", calls=()))
        wrong = calls("increment", '{"step": 0}', '{"by": 1}') + calls("reset", "{}") + calls("_count", "{}")
        first, second = plays_of(environment, (asked[0], [right, wrong]))
        assert heard(first) == (["1", str(target)], True, 1.0)
        told = "error: no tool {}, but increment"
        errors = ["{'error': 'only upwards'}", "error: arguments are step", told.format("reset"), told.format("_count")]
        assert heard(second) == (errors, False, 0.0)


@pytest.mark.slow
def test_a_word_drawn_by_chance_is_the_same_for_all_who_play_the_address() -> None:
    with closing(started("Guessing")) as one, closing(started("Guessing")) as other:
        asked = one.sample(PeerId("me"), Round(0), 4)
        assert asked == other.sample(PeerId("me"), Round(0), 4) and len(asked[0].digest) == 11
        episodes = [calls("guess", *(f'{{"word": "{word}"}}' for word in order)) for order in FRUITS]
        plays = plays_of(one, *((question, episodes) for question in asked))
        assert plays == plays_of(other, *((question, episodes) for question in asked))
        found = list(map(heard, plays))
        assert {score for _, _, score in found} == {0.0, 1.0}
        assert any("{'error': 'Game over.'}" in said for said, _, _ in found)


FRUITS = [("apple", "x"), ("grape", "x"), ("x", "x"), ("x", "lemon")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Fetching", r"opens a socket or starts a process \(socket\..*: peers cannot play it again: train alone on it"),
        ("Clock", "goes otherwise when it is played again"),
        ("Waiting", "wait for others"),
        ("Silent", "scorer raised in a trial"),
        ("Nobody", "has no attribute 'Nobody'"),
    ],
)
def test_what_no_peer_can_play_again_is_refused_in_one_line(name: str, reason: str) -> None:
    (kind, *_) = kinds((f"trl:{FILE}:{name}",))
    assert isinstance(kind, PluggedKind)
    with pytest.raises(UserError, match=reason) as found:
        _ = kind.facts
    assert "\n" not in str(found.value)


def test_an_adapter_that_nobody_registered_is_said() -> None:
    with pytest.raises(UserError, match="nothing is registered as 'gym' among adapters: did you mean 'trl'"):
        kinds(("gym:module:Class",))
