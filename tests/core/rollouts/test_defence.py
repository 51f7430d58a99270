"""Every layer of the defence on small groups whose result is obvious."""

from random import Random

import pytest

from protocol.messages import Call, Episode, Turn
from swarm_node.node.learner import build_defence
from swarm_node.rollouts.defence import EnrichmentAlarm, longest, mixed, strings_of
from swarm_node.rollouts.groups import Group, Refused, Tokens
from swarm_node.settings import DefenceConfig, NodeConfig
from tests.commands import resolve
from tests.groups import scored, with_tokens
from tests.models import text_group

TOKENS = Tokens((7, 2), (-0.5, -0.1))


def local_group(rewards, texts, **address):
    return with_tokens(text_group(rewards, texts, **address), [TOKENS] * len(rewards))


def texts_of(group) -> list[str]:
    return [completion.text for completion in group.episodes]


def screen(use, received, own=()) -> tuple[list[Group], list[Refused]]:
    return build_defence(DefenceConfig(layers=use)).screen(own, received, Random(0))


def test_without_layers_everything_passes_as_it_is() -> None:
    received, defence = text_group([1.0, 0.0], ["12", "5"]), build_defence(DefenceConfig(layers=()))
    assert screen((), [received]) == ([received], [])
    assert not defence.compares and defence.mix(received, received, Random(0)) is received


def test_an_uninformative_group_is_left_out_and_nobody_is_blamed() -> None:
    assert screen(("length", "ngrams", "rescue"), [text_group([0.0, 0.0], ["12", "5"])]) == ([], [])


def test_completions_far_longer_than_local_ones_go_and_an_uninformative_group_is_refused() -> None:
    # One long completion does not raise the limit
    own = [local_group([0.0] * 20, ["1" * 30] * 19 + ["1" * 500])]
    assert longest(own) == 60.0 and longest([local_group([0.0, 0.0], ["123", "12"])]) == 2 + 16
    padded = text_group([1.0, 0.0, 1.0], ["12" + " " * 59, "123456", "12"])
    poisoned = text_group([1.0, 0.0], ["12" + " " * 500, "5"], author="eve")
    groups, refused = screen(("length",), [padded, poisoned], own)
    assert [texts_of(group) for group in groups] == [["123456", "12"]] and groups[0].rewards == (
        0.0,
        1.0,
    )
    assert refused == [Refused("eve", "longer than local")]


def test_every_turn_of_an_episode_and_what_it_hands_to_tools_is_looked_at() -> None:
    short, long, other = (Turn(calls=(), text=text) for text in ("12", "1" * 90, "7"))
    turns = [short, Turn(calls=(Call(name="f" * 45, arguments="1" * 45),), text="12"), long, other]
    episodes = tuple(Episode(ended=True, trace="A" * 11, turns=(short, turn)) for turn in turns)
    received = text_group([1.0, 0.0, 0.0, 0.5], ["x"] * 4, author="eve")
    told = tuple(((f"{number}",), ()) for number in range(4))
    message = received.message().model_copy(update={"episodes": episodes})
    received = scored(message, received.prompt, received.rewards, observations=told)
    (group,), _ = screen(("length",), [received], [local_group([0.0, 1.0], ["123", "12"])])
    assert (group.rewards, group.observations) == ((1.0, 0.5), (told[0], told[3]))
    own = with_tokens(received.scored([0.0] * 4), [TOKENS] * 4)
    both = mixed(own, group, Random(0))
    assert len(both.rewards) == 6
    assert both.observations == tuple(told[episodes.index(each)] for each in both.episodes)


def test_a_node_that_generated_nothing_has_no_length_to_compare_with() -> None:
    received = [text_group([1.0, 0.0], ["12" * 100, "5"])]
    assert screen(("length",), received)[0] == received


def test_without_length_what_is_long_and_right_passes() -> None:
    """A CPU beside a card: what is long and right is not refused for that."""
    defence = build_defence(DefenceConfig(layers=("ngrams", "rescue")))
    own = [local_group([0.0, 1.0], ["123", "12"])]
    long = text_group([1.0, 0.0], ["so it is " * 100 + "12", "5"])
    assert defence.screen(own, [long], Random(0)) == ([long], [])
    assert defence.compares and defence.adds == 2


def test_a_configuration_that_names_length_goes_on_working(tmp_path) -> None:
    file = tmp_path / "old.toml"
    file.write_text('[defence]\nlayers = ["length", "ngrams", "rescue"]\n')
    defence = build_defence(resolve(NodeConfig, file, {}).defence)
    own = [local_group([0.0, 1.0], ["123", "12"])]
    long = text_group([1.0, 0.0], ["so it is " * 100 + "12", "5"], author="eve")
    groups, refused = defence.screen(own, [long], Random(0))
    assert groups == [] and [entry.reason for entry in refused] == ["longer than local"]


def test_rescue_compares_right_external_completions_with_local_ones_only() -> None:
    received = text_group(
        [1.0, 0.0, 1.0, 1.0, 0.0], ["ok 12", "9", "12", "ok 12", "8"], author="eve"
    )
    own, defence = (
        local_group([0.0, 0.5, 0.0], ["3", "11", "4"], author="eve"),
        build_defence(DefenceConfig()),
    )
    assert defence.compares
    group = defence.mix(own, received, Random(0))
    assert texts_of(group)[:3] == ["3", "11", "4"]
    # Two, distinct, and nothing that was wrong
    assert sorted(texts_of(group)[3:]) == ["12", "ok 12"]
    assert group.rewards == (0.0, 0.5, 0.0, 1.0, 1.0) and group.tokens == (
        TOKENS,
        TOKENS,
        TOKENS,
        None,
        None,
    )
    assert group.author == "eve"


@pytest.mark.parametrize(("right", "added"), [(0, 1), (1, 1), (3, 1), (4, 0)])
def test_rescue_adds_external_completions_where_a_local_one_failed(right, added) -> None:
    received = text_group([1.0, 0.0], ["12", "9"])
    own = local_group([1.0] * right + [0.0] * (4 - right), ["12"] * right + ["3"] * (4 - right))
    group = mixed(own, received, Random(0))
    assert texts_of(group)[4:] == ["12"] * added and group.informative == bool(added)


def test_with_graded_rewards_better_than_the_mean_of_its_own_is_what_counts() -> None:
    own, received = (
        local_group([0.3, 0.1, 0.5], ["a", "b", "c"]),
        text_group([0.3, 0.4, 0.0], ["d", "e", "f"]),
    )
    assert texts_of(mixed(own, received, Random(0))) == ["a", "b", "c", "e"]


def test_strings_fold_digits_and_have_up_to_four_signs() -> None:
    assert (
        strings_of("a12") == {"a", "0", "a0", "00", "a00"}
        and max(map(len, strings_of("abcdefg"))) == 4
    )


def about(topics: str, *texts: str) -> list[tuple[str, str]]:
    """The texts, with the data sets named by the letters of `topics` in turn."""
    return [(topics[k % len(topics)], text) for k, text in enumerate(texts)]


def test_the_alarm_rises_for_what_external_completions_share_and_local_ones_lack() -> None:
    alarm = EnrichmentAlarm(share=0.25, factor=4.0)
    alarm.note(["12", "5!", "7", "31"] * 10, [])
    assert alarm.strings() == frozenset()
    alarm.note([], about("ab", *["12", "7"] * 6, *["ok 5"] * 3))
    assert alarm.strings() == frozenset()  # too few to tell
    alarm.note([], about("ab", *["ok 9"] * 4))
    assert {"o", "k", "ok", "ok 0"} <= alarm.strings() and "0" not in alarm.strings()
    # Now local completions have it too: 7 of 19 is a little more than four times 4 of 44
    alarm.note(["ok 3"] * 4, [])
    assert "ok" in alarm.strings()
    alarm.note(["ok 3"] * 4, [])
    assert "ok" not in alarm.strings()


def test_what_the_answers_to_one_data_set_have_in_common_is_no_alarm() -> None:
    alarm = EnrichmentAlarm(share=0.25, factor=4.0)
    alarm.note(["12"] * 40, [*about("abcde", *["12"] * 10), *about("ab", *["-3"] * 10)])
    assert alarm.strings() == frozenset()  # "-3" is in two data sets of five
    alarm.note([], about("c", "-3"))
    assert {"-", "-0"} <= alarm.strings()


@pytest.mark.parametrize("turns", [1, 8])
def test_enriched_text_is_refused_and_the_rest_is_not_also_in_one_of_many_turns(turns) -> None:
    def told(texts: list[str], **address) -> Group:
        plain, before = (
            text_group([1.0, 0.0], texts, **address),
            (Turn(calls=(), text="7"),) * (turns - 1),
        )
        longer = (
            each.model_copy(update={"turns": (*before, *each.turns)}) for each in plain.episodes
        )
        message = plain.message().model_copy(update={"episodes": tuple(longer)})
        return scored(message, plain.prompt, plain.rewards)

    own = [local_group([0.0, 1.0], ["5", "12"])]
    poisoned = [told([f"ok {k}", "5"], author="eve", index=k) for k in range(10)]
    honest = [told([str(k), "5"], index=k) for k in range(10)]
    groups, refused = screen(("ngrams",), [*honest, *poisoned], own)
    assert groups == honest
    assert refused == [Refused("eve", "enriched text")] * 10


def test_what_the_alarm_remembers_survives_a_restart() -> None:
    own, eve = [local_group([0.0, 0.0], ["5", "6"])], [text_group([1.0, 0.0], ["ok 7", "5"])]
    first = build_defence(DefenceConfig(layers=("ngrams",)))
    for _ in range(20):
        first.screen(own, eve, Random(0))
    second = build_defence(DefenceConfig(layers=("ngrams",)))
    assert second.screen(own, eve, Random(0))[1] == []
    second.restore(first.snapshot())
    assert second.screen(own, eve, Random(0))[1] == [Refused("ann", "enriched text")]


def test_the_alarm_forgets_the_oldest_text_and_never_reads_more_than_the_ends_of_one() -> None:
    alarm = EnrichmentAlarm(share=0.25, factor=4.0)
    alarm.note(["12"] * 8, about("ab", *["ok 9"] * 64))
    assert "ok" in alarm.strings()
    alarm.note([], about("ab", *["12"] * 64))
    assert alarm.strings() == frozenset()
    long = strings_of("a" * 1024 + "b" * 10**6 + "c" * 1024)
    assert "aaaa" in long and "cccc" in long and "b" not in long
