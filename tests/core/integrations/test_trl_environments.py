"""Environments written for TRL, as nodes play them; and those that a peer could not play again."""

from contextlib import closing
from pathlib import Path

import pytest

from protocol.messages import Call, PeerId, Question, Round, Turn
from swarm_node.common.errors import UserError
from swarm_node.environments.registry import build_environment, kinds
from swarm_node.environments.scored import Mixture
from swarm_node.rollouts.groups import Played, Skipped
from swarm_node.settings import NodeConfig

FILE = Path(__file__).with_name("trl_environments.py")


def started(name: str) -> Mixture:
    return build_environment(
        NodeConfig.model_validate({"environment": {"use": [f"trl:{FILE}:{name}"]}})
    )


def calls(name: str, *arguments: str) -> tuple[Turn, ...]:
    return tuple(Turn(text="", calls=(Call(name=name, arguments=each),)) for each in arguments)


def heard(
    environment: Mixture, *asked: tuple[Question, list[tuple[Turn, ...]]]
) -> list[tuple[list[str], bool, float]]:
    groups = [() if isinstance(group, Skipped) else group for group in environment.play(asked)]
    plays = [each for group in groups for each in group if isinstance(each, Played)]
    return [
        ([text for turn in each.observations for text in turn], each.done, each.score)
        for each in plays
    ]


@pytest.mark.slow
def test_a_counter_of_a_data_set_is_played_by_its_tools_and_scored_by_itself() -> None:
    with closing(started("Counter")) as environment:
        asked = environment.sample(PeerId("me"), Round(0), 8)
        prompts = [str(prompt) for prompt in environment.prompts(asked)]
        held_out = {
            str(each)
            for each in environment.prompts(environment.sample(PeerId("evaluation"), Round(0), 64))
        }
        assert (
            len(set(prompts)) > 3
            and not held_out & set(prompts)
            and environment.catalogue.turns(asked[0]) == 16
        )
        opening, how, tool = prompts[0].splitlines()
        target = int(opening[9:-1])
        assert (
            how.startswith("Call a tool by <call>")
            and tool == "- increment(step): Add to the counter."
        )
        right = (
            *calls("increment", '{"step": 1}', f'{{"step": {target - 1}}}'),
            Turn(text="done", calls=()),
        )
        wrong = (
            calls("increment", '{"step": 0}', '{"by": 1}')
            + calls("reset", "{}")
            + calls("_count", "{}")
        )
        told = "error: no tool {}, but increment"
        errors = [
            "{'error': 'only upwards'}",
            "error: arguments are step",
            told.format("reset"),
            told.format("_count"),
        ]
        assert heard(environment, (asked[0], [right, wrong])) == [
            (["1", str(target)], True, 1.0),
            (errors, False, 0.0),
        ]


@pytest.mark.slow
def test_a_word_drawn_by_chance_is_the_same_for_all_who_play_the_address() -> None:
    episodes = [
        calls("guess", *[f'{{"word": "{word}"}}'] * 2) for word in ("apple", "grape", "x", "lemon")
    ]
    with closing(started("Guessing")) as one, closing(started("Guessing")) as other:
        asked = [(question, episodes) for question in one.sample(PeerId("me"), Round(0), 4)]
        found = heard(one, *asked)
        assert len(found) == 16 and found == heard(other, *asked)
        assert any("{'error': 'Game over.'}" in said and score == 1.0 for said, _, score in found)


@pytest.mark.slow
def test_what_no_peer_can_play_again_is_refused_in_one_line() -> None:
    reasons = {
        "Fetching": (
            r"opens a socket or starts a process \(socket\..*: peers cannot play it "
            r"again: train alone on it"
        ),
        "Clock": "goes otherwise when it is played again",
        "Waiting": "wait for others",
    }
    for name, reason in reasons.items():
        with pytest.raises(UserError, match=reason) as found:
            _ = kinds((f"trl:{FILE}:{name}",))[0].name
        assert "\n" not in str(found.value)
    with pytest.raises(
        UserError, match="nothing is registered as 'gym' among adapters: did you mean 'trl'"
    ):
        kinds(("gym:module:Class",))
