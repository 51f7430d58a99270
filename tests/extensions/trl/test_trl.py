"""TRL in a swarm: what a batch is made of, and the example beside nodes and a contributor."""

import runpy
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from lab.studies import guests
from lab.studies.mixed_swarm import API, TRAINERS, measured
from protocol.messages import Episode, PeerId, RolloutGroup, Round
from swarm_node import NodeConfig
from swarm_node.policy.policy import Policy
from swarm_node.rollouts.groups import ScoredGroup
from tests.core.policy.test_end_tokens import FAMILIES, chat_policy
from tests.models import EOS, tiny_policy

pytest.importorskip("trl")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(2700)]

STEPS = 6
ALONE = {"environment": {"tasks": ["gcd/tiny"]}, "network": {"enabled": False}}


def rolled_out(policy: Policy, folder: Path) -> tuple[list[str], dict[str, Any]]:
    """Prompts of a batch of one local and one external group, and what GRPOTrainer was given for
    them.
    """
    from trl import GRPOConfig, GRPOTrainer

    from swarm_node.extensions.trl.guest import Swarm

    policy.save(folder / "model")
    few = {
        "per_device_train_batch_size": 4,
        "num_generations": 2,
        "max_completion_length": 8,
        "max_steps": 1,
    }
    quiet = {
        "use_cpu": True,
        "bf16": False,
        "report_to": "none",
        "save_strategy": "no",
        "shuffle_dataset": False,
    }
    given = list[dict[str, Any]]()
    with Swarm(
        NodeConfig.model_validate({"home": folder / "home", **ALONE}), external_groups=1
    ) as swarm:
        (asked,) = swarm._environment.sample(PeerId("another"), Round(0), 1)
        said = tuple(Episode.of(text=text, ended=True) for text in ("6", "5 <|eot_id|>"))
        group = RolloutGroup(
            author=PeerId("another"), round=Round(0), question=asked, episodes=said
        )
        (prompt,) = swarm.prompts([asked])
        swarm._waiting.append(ScoredGroup(group, str(prompt), (1.0, 0.0)))

        def rollout(prompts: Any, trainer: Any) -> dict[str, Any]:
            given.append(swarm.rollout(prompts, trainer))
            return given[-1]

        trainer = GRPOTrainer(
            model=str(folder / "model"),
            args=GRPOConfig(output_dir=str(folder / "trl"), **few, **quiet),
            train_dataset=swarm.dataset(rounds=1, questions=2),
            reward_funcs=swarm.reward,
            rollout_func=rollout,
        )
        trainer.train()
        first = next(iter(swarm._asked))
    return [first, str(prompt)], given[0]


@pytest.mark.parametrize("family", ["a base model", "Llama 3", "Gemma"])
def test_prompts_and_external_completions_are_written_as_in_a_node(
    family: str, tmp_path: Path
) -> None:
    if family == "a base model":
        policy = tiny_policy(max_position_embeddings=512)
    else:
        policy = chat_policy(*FAMILIES[family][:3], max_position_embeddings=512)
    prompts, given = rolled_out(policy, tmp_path)
    assert given["prompt_ids"] == [
        policy.encode_prompt(prompt) for prompt in prompts for _ in range(2)
    ]
    written = [policy.encode_completion(text, ended=True)[:8] for text in ("6", "5 <|eot_id|>")]
    assert given["completion_ids"][2:] == written
    assert written[0][-1] == (policy.turn_end if policy.tokenizer.chat_template else EOS)


@pytest.mark.network
def test_the_example_takes_its_steps_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in guests.of_script(2, seed=0, external=2).items():
        monkeypatch.setenv(name, value)
    runpy.run_path(str(guests.EXAMPLE))["main"](str(tmp_path))
    assert len(guests.rewards(tmp_path)) == 2


# tests/network has scripts that exchange, and nodes of both libraries; tests/extensions/contribute
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
