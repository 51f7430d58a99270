"""What a node does where its user says nothing."""

import json
from pathlib import Path

import pytest

from swarm_node.common.errors import UserError
from swarm_node.node.defaults import model_of, of_pretrained, resolved, suited
from swarm_node.policy import named
from swarm_node.settings import LimitsConfig, NodeConfig


def config(home: Path, **given: object) -> NodeConfig:
    return NodeConfig.model_validate({"home": home, **given})


@pytest.fixture
def had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named, "obtain", lambda name, tell, earlier=False: Path(name))
    monkeypatch.setattr(named, "is_of_earlier", lambda name: False)


def test_what_the_user_gave_stays(tmp_path, had) -> None:
    given = {
        "model": {"name": "smollm2-135m", "lora_rank": 0, "template_arguments": ""},
        "training": {"learning_rate": 1e-3},
        "generation": {"stop": ["END"], "max_completion_length": 99},
        "round": {"questions": 9},
        "validation": {"every": 0},
        "environment": {"tasks": ["gcd/easy"]},
    }
    found = resolved(config(tmp_path, **given), print).model_dump()
    for section, options in (
        config(tmp_path, **given).model_dump(include=set(given), exclude_unset=True).items()
    ):
        assert options.items() <= found[section].items()


def test_tasks_that_are_no_text_to_go_on_with_are_turns_of_a_chat(tmp_path, had) -> None:
    given = {"environment": {"tasks": ["gcd/easy"]}}
    found = suited(config(tmp_path, model={"name": "smollm2-135m"}, **given))
    assert not found.model.template_arguments and not found.generation.stop
    assert found.generation.max_completion_length == 64
    assert found.environment == config(tmp_path, **given).environment and not found.validation.every


def test_all_weights_of_a_pretrained_model_get_a_small_rate() -> None:
    rates = [
        of_pretrained(lora=lora, continued=True)["training"]["learning_rate"]
        for lora in (False, True)
    ]
    assert rates == [1e-6, 2e-4]


def test_a_home_that_cannot_be_looked_into_has_no_model_and_its_error_is_told_later(
    tmp_path,
) -> None:
    # A name this long raises OSError, as a folder of another user does
    assert model_of(tmp_path / ("x" * 300)) == {}


def test_a_starter_is_trained_as_ever(tmp_path) -> None:
    asked = config(tmp_path, model={"name": "rare"})
    assert resolved(asked, print) == asked


@pytest.mark.parametrize(
    ("memory", "words"), [(500.0, "needs 2.4 GB, 0.5 GB is free"), (0.0, "no such hub")]
)
def test_a_starter_stands_in_where_memory_is_short_or_the_model_cannot_be_had(
    tmp_path, monkeypatch, memory, words
) -> None:
    def refuse(tell: object) -> str:
        raise UserError("no such hub; give something else")

    monkeypatch.setattr(named, "best", refuse)
    said: list[str] = []
    found = resolved(config(tmp_path, limits=LimitsConfig(memory=memory)), said.append)
    assert found.model.name == "rare" and not found.model.lora_rank
    assert len(said) == 1 and words in said[0] and "give something else" not in said[0]
    assert "training the starter instead, rare: a starter of swarm-node, MIT, 3 MB" in said[0]


@pytest.mark.parametrize(
    ("kept", "name", "rank"),
    [
        ({"name": "dense", "lora_rank": 0}, "dense", 0),
        ({"name": "smollm2-135m", "lora_rank": 4}, "smollm2-135m", 4),
        ({"name": "somebody/else", "lora_rank": 4}, "smollm2-135m", 16),
        ({"name": ["dense"]}, "smollm2-135m", 16),
        (None, "smollm2-135m", 16),
    ],
)
def test_a_home_goes_on_with_its_model_if_that_is_one_of_ours(
    tmp_path, had, kept, name, rank
) -> None:
    folder = tmp_path / "checkpoints" / "00000020"
    folder.mkdir(parents=True)
    (folder / "state.json").write_text(json.dumps({"extra": {"model": kept}}) if kept else "[")
    found = resolved(config(tmp_path), print)
    assert (found.model.name, found.model.lora_rank) == (name, rank)


def test_a_home_of_an_earlier_version_asks_for_its_model_as_that_one(tmp_path, monkeypatch) -> None:
    """It may have begun when the hub's name stood for the weights of the package as well."""
    asked: list[bool] = []
    monkeypatch.setattr(
        named, "obtain", lambda name, tell, earlier=False: asked.append(earlier) or Path(name)
    )
    folder = tmp_path / "checkpoints" / "00000020"
    folder.mkdir(parents=True)
    (folder / "state.json").write_text(json.dumps({"extra": {"model": {"name": "smollm2-135m"}}}))
    resolved(config(tmp_path), print)
    resolved(config(tmp_path, model={"name": "smollm2-135m"}), print)
    resolved(config(tmp_path / "new", model={"name": "smollm2-135m"}), print)
    assert asked == [True, True, False]
