"""Which words are flags, and which are their values."""

import pytest

from swarm_node.common.errors import UserError
from swarm_node.settings import BootstrapConfig, NodeConfig
from swarm_node.settings.command_line import parse


def values(words: str, kind=NodeConfig, first: str = "CONFIG.toml"):
    return parse(kind, words.split(), "swarm-node run", first)[1].values


def test_a_value_follows_its_flag_or_an_equals_sign():
    assert values("--seed 3 --home=/x") == {"seed": 3, "home": "/x"}
    assert values("--training.learning-rate -1 --training.weight_decay=0.1") == {
        "training.learning_rate": -1,
        "training.weight_decay": 0.1,
    }


def test_a_list_takes_all_words_up_to_the_next_flag_and_may_come_in_parts():
    assert values("--peers A B --seed 1 --peers=C D") == {"network.peers": ["A", "B", "C", "D"], "seed": 1}


@pytest.mark.parametrize(
    ("words", "on"),
    [
        ("--network.mdns", True),
        ("--network.no-mdns", False),
        ("--network.mdns false", False),
        ("--network.mdns=False", False),
        ("--network.no-mdns true", False),
    ],
)
def test_a_switch_stands_alone_or_takes_true_or_false(words, on):
    assert values(words) == {"network.mdns": on}


def test_a_list_that_is_not_empty_by_itself_is_emptied_by_its_flag_alone():
    assert values("--defence --seed 1") == {"defence.layers": [], "seed": 1}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--peers", "--peers needs a value"),
        ("--peers --seed 1", "--peers needs a value"),
        ("--seed --home x", "--seed needs a value"),
        ("--seed 1 --seed 2", "--seed is given twice"),
        ("--network.mdns --network.no-mdns", "given twice"),
        ("--network.mdns=maybe", "takes true or false"),
        ("--learning-rate 1", "did you mean --training.learning-rate?"),
        ("--modell x", "did you mean --model.name?"),
        ("--taks gcd/easy", "did you mean --environment.tasks?"),
        ("--bogus", "see swarm-node run --help-all"),
        ("a.toml b.toml", "'b.toml' is no flag"),
        ("--model.x 3", "did you mean --model.name?"),
    ],
)
def test_a_mistake_is_one_line_with_the_name_as_it_was_written(words, said):
    with pytest.raises(UserError) as caught:
        values(words)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_options_of_another_command_are_named_as_this_one_has_them():
    with pytest.raises(UserError, match="did you mean --home"):
        values("--hoem 1", BootstrapConfig, "")
    assert values("--network.port 1 --network.no-mdns", BootstrapConfig, "") == {"port": 1, "mdns": False}
    with pytest.raises(UserError, match="takes only flags"):
        values("somewhere", BootstrapConfig, "")
