"""Loss and gradients of our trainer are those of TRL's GRPOTrainer on the same batch (float32,
1e-5).

Ours is the real path: `update` on scored groups. Gradients are read just before the optimiser's
step, unclipped.
"""

import copy
import random
import warnings
from dataclasses import replace

import pytest
import torch

from swarm_node.policy.policy import Policy
from swarm_node.settings import GenerationConfig, TrainingConfig
from swarm_node.training.objectives import clipped
from swarm_node.training.trainer import GrpoTrainer
from tests.groups import tokens_of, with_tokens
from tests.models import characters, gradients_of, plain_log_probs, tiny_model, token_group

warnings.filterwarnings("ignore")

MAX_LENGTH = 24
PROMPTS = ("12+30=", "say seven, now:", "?")
GROUPS = {"12+30=": 4, "say seven, now:": 4, "?": 4}
LAYOUTS = [(True, 90), (False, 60)]  # padded, tokens of a micro-batch: fewer than the batch has


def build_trl(model, folder, temperature: float):
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    arguments = GRPOConfig(
        output_dir=str(folder),
        per_device_train_batch_size=12,
        num_generations=4,
        gradient_accumulation_steps=1,
        max_completion_length=MAX_LENGTH,
        temperature=temperature,
        epsilon=0.2,
        epsilon_high=0.28,
        use_bias_correction_kl=False,  # ours is the penalty of the GRPO paper
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        report_to=[],
    )
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=arguments,
        train_dataset=Dataset.from_dict({"prompt": ["x"] * 12}),
        processing_class=characters(),
    )
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    return trainer


class Batch:
    """Twelve completions of three prompts, with old log-probs so far from the present ones that
    some are clipped.
    """

    def __init__(self, model, temperature: float) -> None:
        rng, tokenizer = random.Random(1), characters()
        self.prompts = [tokenizer(text).input_ids for text in PROMPTS for _ in range(4)]
        self.completions = [
            [rng.randrange(4, 99) for _ in range(rng.randrange(1, MAX_LENGTH))] for _ in range(12)
        ]
        self.completions[5] = [50]  # a single token
        self.rewards = [[0.0, 1.0, 1.0, 0.25], [1.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.75, 0.1]]
        torch.manual_seed(2)
        with torch.no_grad():
            now = [
                plain_log_probs(model, p, c, temperature)
                for p, c in zip(self.prompts, self.completions, strict=True)
            ]
        self.old = [values + 0.3 * torch.randn(len(values)) for values in now]
        self.reference = [values + 0.2 * torch.randn(len(values)) for values in now]

    def groups(self):
        return [
            token_group(
                self.rewards[g],
                self.completions[4 * g : 4 * g + 4],
                [values.tolist() for values in self.old[4 * g : 4 * g + 4]],
                PROMPTS[g],
            )
            for g in range(3)
        ]

    def for_trl(self) -> dict[str, torch.Tensor]:
        """The usual padded tensors: prompts on the left, completions on the right."""

        def pad(rows, left: bool, value: float = 0):
            width = max(map(len, rows))
            filled = [
                [value] * (width - len(r)) + list(r)
                if left
                else list(r) + [value] * (width - len(r))
                for r in rows
            ]
            return torch.tensor(filled)

        mask = pad([[1] * len(c) for c in self.completions], left=False)
        rewards = torch.tensor(self.rewards)
        advantages = (rewards - rewards.mean(1, keepdim=True)) / rewards.std(1, keepdim=True)
        return {
            "prompt_ids": pad(self.prompts, left=True),
            "prompt_mask": pad([[1] * len(p) for p in self.prompts], left=True),
            "completion_ids": pad(self.completions, left=False),
            "completion_mask": mask,
            "advantages": advantages.flatten(),
            "old_per_token_logps": pad([v.tolist() for v in self.old], left=False, value=0.0),
            "ref_per_token_logps": pad([v.tolist() for v in self.reference], left=False, value=0.0),
            "num_items_in_batch": mask.sum(),
        }


@pytest.fixture(scope="module")
def model():
    return tiny_model("Qwen2")


@pytest.fixture(scope="module")
def oracles(model, tmp_path_factory):
    """TRL's trainers by temperature, which a trainer builds into its model."""
    folder = tmp_path_factory.mktemp("trl")
    return {
        temperature: build_trl(copy.deepcopy(model), folder, temperature)
        for temperature in (1.0, 0.7)
    }


@pytest.fixture
def trl(oracles):
    return oracles[1.0]


def their_loss(trl, inputs: dict[str, torch.Tensor], loss_type: str, beta: float = 0.0):
    trl.loss_type, trl.beta = loss_type, beta
    trl.model.zero_grad()
    loss = trl.compute_loss(trl.model, inputs)
    loss.backward()
    return loss.item(), [p.grad.clone() for p in trl.model.parameters()]


def our_loss(
    model,
    groups,
    loss_type: str,
    temperature: float,
    padded: bool,
    budget: int,
    beta: float = 0.0,
    **more,
):
    """The policy, its unclipped gradients (none yet), and a function that updates and so adds
    them.
    """
    policy = Policy(copy.deepcopy(model), characters(), torch.device("cpu"))
    config = TrainingConfig(
        loss_type=loss_type, token_budget=budget, beta=beta, max_grad_norm=1e9, **more
    )
    generation = GenerationConfig(temperature=temperature, max_completion_length=MAX_LENGTH)
    trainer = GrpoTrainer(policy, config, generation, padded=padded, objective=clipped)  # as TRL's
    assert (trainer.packing is None) == padded
    return policy, gradients_of(trainer), lambda: trainer.update(groups)


def assert_equal(report, ours, loss: float, theirs) -> None:
    assert report.loss == pytest.approx(loss, abs=1e-5)
    assert len(ours) == len(theirs) > 0 and sum(float(g.norm()) for g in theirs) > 0.1
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("padded", "budget"), LAYOUTS, ids=lambda value: str(value))
@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("loss_type", ["grpo", "dapo", "dr_grpo"])
def test_loss_and_gradients_equal_those_of_trl(
    model, oracles, loss_type, temperature, padded, budget
) -> None:
    batch = Batch(model, temperature)
    loss, theirs = their_loss(oracles[temperature], batch.for_trl(), loss_type)
    _, ours, update = our_loss(model, batch.groups(), loss_type, temperature, padded, budget)
    report = update()
    assert report.optimizer_steps == 1
    assert report.clip_fraction > 0.05  # else the clip is not tested
    assert_equal(report, ours, loss, theirs)


@pytest.mark.parametrize(("padded", "budget"), LAYOUTS, ids=lambda value: str(value))
@pytest.mark.parametrize("loss_type", ["grpo", "dapo", "dr_grpo"])
def test_what_an_environment_wrote_counts_as_under_their_tool_mask(
    model, trl, loss_type, padded, budget
) -> None:
    batch = Batch(model, 1.0)
    masks = [[0 < k % 5 < 3 or k < 2 for k in range(len(ids))] for ids in batch.completions]
    inputs = batch.for_trl()
    inputs["tool_mask"] = torch.ones_like(inputs["completion_mask"])
    for row, mask in zip(inputs["tool_mask"], masks, strict=True):
        row[: len(mask)] = torch.tensor(mask)
    inputs["num_items_in_batch"] = (inputs["completion_mask"] * inputs["tool_mask"]).sum()
    loss, theirs = their_loss(trl, inputs, loss_type)
    groups = batch.groups()
    for number, group in enumerate(groups):
        tokens = zip(tokens_of(group), masks[4 * number :], strict=False)
        groups[number] = with_tokens(
            group, [replace(each, mask=tuple(mask)) for each, mask in tokens]
        )
    _, ours, update = our_loss(model, groups, loss_type, 1.0, padded, budget)
    report = update()
    assert report.trained_tokens == sum(map(sum, masks)) < sum(map(len, masks))
    assert_equal(report, ours, loss, theirs)


def test_dapo_without_accumulation_is_their_bnpo(model, trl) -> None:
    batch = Batch(model, 1.0)
    loss, theirs = their_loss(trl, batch.for_trl(), "bnpo")
    _, ours, update = our_loss(model, batch.groups(), "dapo", 1.0, False, 60)
    assert_equal(update(), ours, loss, theirs)


def test_without_old_log_probs_the_ratio_is_one_on_both_sides(model, trl) -> None:
    batch = Batch(model, 1.0)
    inputs = batch.for_trl()
    del inputs["old_per_token_logps"]
    loss, theirs = their_loss(trl, inputs, "grpo")
    batch.old = [torch.full_like(values, float("nan")) for values in batch.old]
    _, ours, update = our_loss(model, batch.groups(), "grpo", 1.0, False, 16384)
    report = update()
    assert report.ratio_mean == 1.0
    assert_equal(report, ours, loss, theirs)


@pytest.mark.slow
@pytest.mark.parametrize(("padded", "budget"), LAYOUTS, ids=lambda value: str(value))
def test_the_kl_penalty_equals_that_of_trl(model, trl, padded, budget) -> None:
    batch = Batch(model, 1.0)
    policy, ours, update = our_loss(model, batch.groups(), "grpo", 1.0, padded, budget, beta=0.5)
    torch.manual_seed(3)
    # The policy moves away from the initial one, the reference stays
    for weight in policy.model.parameters():
        weight.data += 0.02 * torch.randn_like(weight)
    trl.model.load_state_dict(policy.model.state_dict())
    with torch.no_grad():
        reference = [
            plain_log_probs(model, p, c)
            for p, c in zip(batch.prompts, batch.completions, strict=True)
        ]
    batch.reference = reference
    try:
        loss, theirs = their_loss(trl, batch.for_trl(), "grpo", beta=0.5)
        without, _ = their_loss(trl, batch.for_trl(), "grpo")
    finally:
        trl.model.load_state_dict(model.state_dict())
    assert abs(loss - without) > 1e-3  # else the penalty is not tested
    assert_equal(update(), ours, loss, theirs)
