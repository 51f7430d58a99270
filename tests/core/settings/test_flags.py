"""Which words are flags, and which are their values."""

import pytest
from pydantic import Field, create_model

from swarm_node.common.errors import UserError
from swarm_node.settings import BootstrapConfig, NodeConfig
from swarm_node.settings.command_line import from_command_line
from swarm_node.settings.flags import parse


def values(words: str, kind=NodeConfig, first: str = "CONFIG.toml"):
    return parse(kind, words.split(), "swarm-node run", first)[1].values


def test_a_value_follows_its_flag_or_an_equals_sign():
    assert values("--seed 3 --home=/x") == {"seed": 3, "home": "/x"}
    assert values("--training.learning-rate -1 --training.weight_decay=0.1") == {
        "training.learning_rate": -1,
        "training.weight_decay": 0.1,
    }


@pytest.mark.parametrize(
    "words",
    ["--peers A B --seed 1", "--peers A --seed 1 --peers=B", "--network.peers A B --seed=1"],
)
def test_a_list_takes_all_words_up_to_the_next_flag_and_may_come_in_parts(words):
    assert values(words) == {"network.peers": ["A", "B"], "seed": 1}


def test_a_list_of_flags_takes_the_place_of_the_one_in_the_file(tmp_path):
    (tmp_path / "node.toml").write_text('[network]\npeers = ["A"]\n')
    config = from_command_line(
        NodeConfig, [f"{tmp_path}/node.toml", "--peers", "B,C"], "swarm-node run"
    )
    assert config.network.peers == ("B", "C")


@pytest.mark.parametrize(
    ("words", "on"),
    [
        ("--network.mdns", True), ("--network.no-mdns", False), ("--network.mdns false", False),
        ("--network.mdns=False", False), ("--network.no-mdns true", False),
    ],
)  # fmt: skip
def test_a_switch_stands_alone_or_takes_true_or_false(words, on):
    assert values(words) == {"network.mdns": on}


def test_a_list_that_is_not_empty_by_itself_is_emptied_by_its_flag_alone():
    assert values("--defence --seed 1") == {"defence.layers": [], "seed": 1}


def test_options_of_another_command_are_named_as_this_one_has_them():
    with pytest.raises(UserError, match="did you mean --home"):
        values("--hoem 1", BootstrapConfig, "")
    assert values("--network.port 1 --network.no-mdns", BootstrapConfig, "") == {
        "port": 1,
        "mdns": False,
    }
    with pytest.raises(UserError, match="takes only flags"):
        values("somewhere", BootstrapConfig, "")


def test_an_option_that_goes_says_so_for_one_release_and_still_counts(capsys):
    aging = create_model(
        "Aging", __base__=BootstrapConfig, old=(int, Field(default=0, deprecated="use --port"))
    )
    assert (
        from_command_line(
            aging, ["--old", "2"], "swarm-node bootstrap", flags_only=True
        ).model_dump()["old"]
        == 2
    )
    assert (
        capsys.readouterr().err
        == "swarm-node: warning: --old will be removed in the next release; use --port\n"
    )


@pytest.mark.parametrize(
    "text", ["-5 + 3 =", "-5", "-x + 3 = 5", "-(2 + 3)", "--5 is what?", "- 5", "-.5 * 2", "—5"]
)
def test_a_text_that_begins_with_a_dash_is_no_flag(text):
    word, flags = parse(NodeConfig, ["--seed", "3", text], "swarm-node ask", "TEXT")
    assert (word, flags.values) == (text, {"seed": 3})


@pytest.mark.parametrize("text", ["--seed", "-x=3", "--help", "plain", "--"])
def test_behind_two_dashes_every_word_is_text(text):
    word, flags = parse(NodeConfig, ["--seed", "3", "--", text], "swarm-node ask", "TEXT")
    assert (word, flags.values) == (text, {"seed": 3})


def test_two_dashes_end_the_values_of_a_list():
    word, flags = parse(NodeConfig, ["--peers", "A", "B", "--", "C"], "swarm-node run", "FILE")
    assert (word, flags.values) == ("C", {"network.peers": ["A", "B"]})
    with pytest.raises(UserError, match="--home needs a value"):
        parse(NodeConfig, ["--home", "--", "x"], "swarm-node run", "FILE")


def test_a_text_that_looks_like_a_flag_is_told_where_it_belongs():
    with pytest.raises(UserError, match=r"no option -x; .*TEXT that begins with a dash"):
        parse(NodeConfig, ["-x=3"], "swarm-node ask", "TEXT")
