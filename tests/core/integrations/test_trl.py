"""TRL in a swarm: what a batch is made of, and the example beside nodes and a contributor."""

import runpy
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from lab.studies import guests
from lab.studies.mixed_swarm import API, TRAINERS, measured
from protocol.messages import Episode, PeerId, Round
from swarm_node import NodeConfig
from swarm_node.common.errors import UserError
from swarm_node.policy.policy import Frame, Policy
from swarm_node.rollouts.groups import Group
from tests.core.policy.test_end_tokens import FAMILIES, chat_policy
from tests.groups import scored
from tests.models import EOS, tiny_policy

pytest.importorskip("trl")
from datasets import Dataset

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2700)]

STEPS = 6
ALONE = {"environment": {"tasks": ["gcd/tiny"]}, "network": {"enabled": False}}


def rolled_out(
    policy: Policy,
    folder: Path,
    system: str = "",
    rows: Callable[[Dataset], Dataset] = lambda rows: rows,
    rewards: Sequence[Callable[..., list[float | None]]] = (),
    external: int = 1,
) -> tuple[list[str], dict[str, Any]]:
    """Questions of a round of two, where an external one comes last, and what GRPOTrainer was given
    for its first batch. `rows`: makes the script's data set of the swarm's.
    """
    from trl import GRPOConfig, GRPOTrainer

    from swarm_node.integrations.trl.guest import Swarm

    policy.save(folder / "model")
    quiet = {
        "use_cpu": True,
        "bf16": False,
        "report_to": "none",
        "save_strategy": "no",
        "shuffle_dataset": False,
    }
    given = list[dict[str, Any]]()
    alone = {**ALONE, "environment": {**ALONE["environment"], "system": system}}
    config = NodeConfig.model_validate({"home": folder / "home", **alone})
    with Swarm(config, external_groups=external) as swarm:
        (asked,) = swarm._environment.sample(PeerId("another"), Round(0), 1)
        said = tuple(Episode.of(text=text, ended=True) for text in ("6", "5 <|eot_id|>"))
        group = Group.of_text(PeerId("another"), Round(0), asked, said).message()
        (prompt,) = swarm.prompts([asked])
        swarm._waiting.append(scored(group, str(prompt), (1.0, 0.0)))

        def rollout(prompts: Any, trainer: Any) -> dict[str, Any]:
            given.append(swarm.rollout(prompts, trainer))
            return given[-1]

        data = rows(swarm.dataset(rounds=1, questions=2))
        arguments = GRPOConfig(
            output_dir=str(folder / "trl"),
            per_device_train_batch_size=2 * len(data),
            num_generations=2,
            max_completion_length=8,
            max_steps=1,
            **quiet,
        )
        trainer = GRPOTrainer(
            model=str(folder / "model"),
            args=arguments,
            train_dataset=data,
            reward_funcs=[swarm.reward, *rewards],
            rollout_func=rollout,
        )
        trainer.train()
        first = next(iter(swarm._asked))
    return [first, str(prompt)], given[0]


def policy_of(family: str) -> Policy:
    """A policy of a family of chat templates, with room for questions."""
    if family == "a base model":
        return tiny_policy(max_position_embeddings=512)
    return chat_policy(*FAMILIES[family][:3], max_position_embeddings=512)


@pytest.mark.parametrize("family", ["a base model", "Llama 3", "Gemma"])
def test_prompts_and_external_completions_are_written_as_in_a_node(
    family: str, tmp_path: Path
) -> None:
    policy = policy_of(family)
    prompts, given = rolled_out(policy, tmp_path)
    assert given["prompt_ids"] == [
        policy.encode_prompt(prompt) for prompt in prompts for _ in range(2)
    ]
    written = [policy.encode_completion(text, ended=True)[:8] for text in ("6", "5 <|eot_id|>")]
    assert given["completion_ids"][2:] == written
    assert written[0][-1] == (policy.turn_end if policy.tokenizer.chat_template else EOS)


@pytest.mark.parametrize("family", ["a base model", "Llama 3"])
@pytest.mark.parametrize("by", ["environment.system", "the script"])
def test_a_system_turn_stands_before_local_and_external_questions_as_in_a_node(
    family: str, by: str, tmp_path: Path
) -> None:
    policy = policy_of(family)
    told = "Be brief."

    def with_a_turn(row: dict[str, Any]) -> dict[str, Any]:
        return {"prompt": [{"role": "system", "content": told}, *row["prompt"]]}

    if by == "the script":
        prompts, given = rolled_out(policy, tmp_path, rows=lambda rows: rows.map(with_a_turn))
    else:
        prompts, given = rolled_out(policy, tmp_path, system=told)
    policy.take(Frame(system=told))
    expected = [policy.encode_prompt(prompt) for prompt in prompts for _ in range(2)]
    assert given["prompt_ids"] == expected
    bare = chat_policy(*FAMILIES["Llama 3"][:3]) if family == "Llama 3" else tiny_policy()
    assert expected[0] != bare.encode_prompt(prompts[0])


def test_rows_of_the_scripts_own_are_trained_on_beside_those_of_the_swarm(tmp_path: Path) -> None:
    """They stand before, between and behind, and are completed as they are. Only the script scores
    them, and no external group takes their places.
    """
    policy = policy_of("Llama 3")
    seen = list[tuple[list[str | None], list[int | None]]]()
    own = [
        [{"role": "user", "content": "Say a."}],
        [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Say b."}],
        [
            {"role": "user", "content": "Say c."},
            {"role": "assistant", "content": "c"},
            {"role": "user", "content": "And d."},
        ],
    ]

    def beside(rows: Dataset) -> Dataset:
        first, second = rows
        mine = [{"prompt": prompt, "worth": 1 + k} for k, prompt in enumerate(own)]
        return Dataset.from_list([mine[0], first, mine[1], second, mine[2]])

    def own_reward(
        completions: Any, address: list[str | None], worth: list[int | None], **_: Any
    ) -> list[float | None]:
        seen.append((address, worth))
        return [None if value is None else float(value) for value in worth]

    prompts, given = rolled_out(policy, tmp_path, rows=beside, rewards=[own_reward], external=2)

    def encoded(turns: list[dict[str, str]]) -> list[int]:
        ids = policy.tokenizer.apply_chat_template(
            turns, add_generation_prompt=True, return_dict=False
        )
        return list(ids)

    expected = [encoded(own[0]), policy.encode_prompt(prompts[0])]
    expected += [encoded(own[1]), policy.encode_prompt(prompts[1]), encoded(own[2])]
    assert given["prompt_ids"] == [ids for ids in expected for _ in range(2)]
    said = [policy.encode_completion(text, ended=True)[:8] for text in ("6", "5 <|eot_id|>")]
    assert given["completion_ids"][6:8] == said
    assert [address is None for address in given["address"]] == [
        place in (0, 1, 4, 5, 8, 9) for place in range(10)
    ]
    assert seen[0] == (given["address"], [1, 1, None, None, 2, 2, None, None, 3, 3])


def test_rows_of_the_scripts_own_alone_are_trained_on_as_they_are(tmp_path: Path) -> None:
    policy = policy_of("Llama 3")
    own = Dataset.from_list([{"prompt": [{"role": "user", "content": "Say a."}]}] * 2)

    def lengths(completions: Any, **_: Any) -> list[float | None]:
        return [float(len(each[0]["content"])) for each in completions]

    _, given = rolled_out(policy, tmp_path, rows=lambda rows: own, rewards=[lengths])
    assert given["prompt_ids"] == [policy.encode_prompt("Say a.")] * 4
    assert given["address"] == [None] * 4


def test_a_question_that_the_script_changed_is_refused_in_one_line(tmp_path: Path) -> None:
    def changed(row: dict[str, Any]) -> dict[str, Any]:
        (turn,) = row["prompt"]
        return {"prompt": [{**turn, "content": f"{turn['content']} Be brief."}]}

    with pytest.raises(UserError, match="under the address of another question: change the turns"):
        rolled_out(policy_of("Llama 3"), tmp_path, rows=lambda rows: rows.map(changed))


def test_a_template_without_system_turns_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"takes no system turn: remove environment\.system"):
        rolled_out(policy_of("Gemma"), tmp_path, system="Be brief.")


@pytest.mark.network
def test_the_example_takes_its_steps_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in guests.of_script(2, seed=0, external=2).items():
        monkeypatch.setenv(name, value)
    runpy.run_path(str(guests.EXAMPLE))["main"](str(tmp_path))
    assert len(guests.rewards(tmp_path)) == 2


# tests/network has scripts that exchange, and nodes of both libraries; tests/core/contribute
# has contributors
@pytest.mark.long
@pytest.mark.network
def test_a_trl_script_two_nodes_and_a_contributor_train_on_each_other() -> None:
    # Where the extra trl is installed alone
    backend = "libp2p" if find_spec("libp2p") else "hivemind"
    found = measured(STEPS, backend, model="rare")
    assert set(found["first"]) == set(TRAINERS)
    for who, others in found["first"].items():
        assert set(others) == {*TRAINERS, API} - {who}
        assert all(seconds is not None for seconds in others.values()), found["first"]
        assert len(found["rewards"][who]) >= STEPS
