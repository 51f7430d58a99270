"""Rounds that wait for training, as a checkpoint keeps them: of this version, and of 0.1."""

import json
from dataclasses import replace

import pytest

from protocol.messages import PeerId, Round
from swarm_node.node.waiting import read_waiting, write_waiting
from swarm_node.rollouts.groups import Generated, Tokens
from tests.groups import group, scored

PLAIN = scored(
    group(PeerId("ann"), texts=("4", "five")),
    "2 + 2?",
    (1.0, 0.0),
    [Tokens((7, 2), (-0.5, -0.25), (3, 3)), Tokens((8,), (-1.0,), (3,))],
    (5, 6),
)
SEVERAL = scored(
    group(PeerId("bob"), index=1, texts=("4", "five")),
    "guess:",
    (0.5, 0.25),
    [
        Tokens((7, 9, 2), (-0.5, 0.0, -0.25), (3, 3, 3), (True, False, True)),
        Tokens((8,), (-1.0,), (3,)),
    ],
    (5,),
    ((("higher",), ()), (("lower",),)),
)
ROUND = Generated(Round(3), [PLAIN], {"prompt too long": 1}, {"generate": 0.5}, [SEVERAL])


def test_a_round_that_waits_is_read_as_it_was_written() -> None:
    assert read_waiting(write_waiting(ROUND)) == ROUND


def test_a_round_that_version_0_1_wrote_has_the_same_samples() -> None:
    """Written at commit d71ad390, in the form of 861d7f36: lists of episodes, rewards, tokens and
    observations beside each other.
    """
    numbers = {"environment": "reasoning_gym", "version": "0.1.25", "dataset": "chain_sum"}
    more = {"digest": "AAAAAAAAAAA", "config_id": "easy"}
    asked = [
        numbers | more | {"seed": 2047545853, "index": 0},
        numbers | more | {"seed": 54626856, "index": 1},
    ]
    episodes = [
        {"ended": True, "trace": "", "turns": [{"calls": [], "text": text}]}
        for text in ("4", "five")
    ]
    short = {"ids": [8], "log_probs": [-1.0], "versions": [3], "mask": []}
    long = {"ids": [7, 2], "log_probs": [-0.5, -0.25], "versions": [3, 3], "mask": []}
    masked = {
        "ids": [7, 9, 2],
        "log_probs": [-0.5, 0.0, -0.25],
        "versions": [3, 3, 3],
        "mask": [True, False, True],
    }
    plain = {
        "group": {"author": "ann", "round": 0, "question": asked[0], "episodes": episodes},
        "prompt": "2 + 2?",
        "rewards": [1.0, 0.0],
        "tokens": [long, short],
        "prompt_ids": [5, 6],
        "observations": [],
    }
    several = {
        "group": {"author": "bob", "round": 0, "question": asked[1], "episodes": episodes},
        "prompt": "guess:",
        "rewards": [0.5, 0.25],
        "tokens": [masked, short],
        "prompt_ids": [5],
        "observations": [[["higher"], []], [["lower"]]],
    }
    written = {
        "round": 3,
        "groups": [plain],
        "skipped": {"prompt too long": 1},
        "seconds": {"generate": 0.5},
        "answers": [several],
    }
    assert read_waiting(json.dumps(written)) == ROUND
    contributed = {**plain, "tokens": None, "prompt_ids": []}  # of a model without token ids
    (read,) = read_waiting(json.dumps({**written, "groups": [contributed]})).groups
    assert read == replace(scored(PLAIN, "2 + 2?", (1.0, 0.0)))
    assert all(sample.external for sample in read.samples)


@pytest.mark.parametrize("text", ["{}", "[]", "3", "no JSON", '{"groups": [3], "answers": []}'])
def test_what_is_no_round_is_a_value_error(text) -> None:
    with pytest.raises(ValueError):
        read_waiting(text)
