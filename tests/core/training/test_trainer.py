"""One update: equal to a plain one written here, nothing uninformative, and every fault of the
reference avoided.
"""

import copy
import math
from dataclasses import replace
from statistics import fmean, stdev

import pytest
import torch
from torch.nn.utils import parameters_to_vector

from swarm_node.common import plugins
from swarm_node.generation.generator import BatchGenerator
from swarm_node.policy.batch import dynamic_batches, tokenise
from swarm_node.rollouts.groups import Completions, Group, Tokens
from swarm_node.settings import MICRO_BATCH, GenerationConfig, TrainingConfig
from swarm_node.training.objectives import clipped
from swarm_node.training.trainer import GrpoTrainer
from tests.groups import episodes_of, scored, tokens_of, with_tokens
from tests.models import (
    EOS,
    MANY_EOS,
    characters,
    gradients_of,
    plain_log_probs,
    text_group,
    tiny_policy,
    token_group,
    weights_of,
    with_lora,
)

GENERATION = GenerationConfig(max_completion_length=12)


def trainer_of(policy, generation=GENERATION, padded=False, **training) -> GrpoTrainer:
    trainer = GrpoTrainer(
        policy, TrainingConfig(**{"learning_rate": 1e-2, **training}), generation, padded=padded
    )
    assert (trainer.packing is None) == padded
    return trainer


def local_groups(
    policy, count=2, size=4, stream="s", generation=GENERATION, **training
) -> list[Group]:
    """Groups that the policy generated, with rewards that make them informative."""
    prompts = [f"{'ab' * k}{k}:" for k in range(1, count + 1)]
    generated = BatchGenerator(policy, generation).generate(prompts, size, stream)
    groups = []
    for prompt, group in zip(prompts, generated, strict=True):
        assert isinstance(group, Completions)
        received = text_group(
            [k % 3 / 2 for k in range(size)], [c.text for c in episodes_of(group)], prompt
        )
        groups.append(
            scored(received, prompt, received.rewards, tokens_of(group), group.prompt_ids)
        )
    return groups


def adam_state(trainer: GrpoTrainer) -> list[torch.Tensor]:
    values = [
        value
        for state in trainer.optimizer.state_dict()["state"].values()
        for value in state.values()
    ]
    return [value.clone() for value in values if isinstance(value, torch.Tensor)]


def plain_step(
    model, groups, *, loss_type: str, learning_rate: float, max_norm: float, steps: int = 1
) -> float:
    """GRPO without anything clever: a forward per completion, torch's AdamW and clip. Returns the
    last step's loss.
    """
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=0.0)
    tokenizer = characters()
    every = [tokens for group in groups for tokens in tokens_of(group)]
    for _ in range(steps):
        optimizer.zero_grad()
        total = 0.0
        for group in groups:
            mean, deviation = fmean(group.rewards), stdev(group.rewards)
            for tokens, reward in zip(tokens_of(group), group.rewards, strict=True):
                log_probs = plain_log_probs(model, tokenizer(group.prompt).input_ids, tokens.ids)
                ratio, advantage = (
                    (log_probs - torch.tensor(tokens.log_probs)).exp(),
                    (reward - mean) / deviation,
                )
                gain = torch.min(ratio * advantage, ratio.clamp(0.8, 1.28) * advantage).sum()
                weight = {
                    "grpo": 1 / (len(tokens.ids) * len(every)),
                    "dapo": 1 / sum(len(t.ids) for t in every),
                    "dr_grpo": 1 / (len(every) * GENERATION.max_completion_length),
                }[loss_type]
                total = total - weight * gain
        total.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
    return total.item()


@pytest.mark.slow
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("loss_type", ["grpo", "dapo", "dr_grpo"])
@pytest.mark.parametrize("steps", [1, 3])
def test_an_update_equals_a_plain_reference(padded, loss_type, steps) -> None:
    policy = tiny_policy(eos=MANY_EOS)
    groups = local_groups(policy)
    reference, first = copy.deepcopy(policy.model), weights_of(policy.model)
    report = trainer_of(
        policy,
        loss_type=loss_type,
        padded=padded,
        token_budget=70,
        num_iterations=steps,
        max_grad_norm=0.5,
    ).update(groups)
    plain_step(
        reference, groups, loss_type=loss_type, learning_rate=1e-2, max_norm=0.5, steps=steps
    )
    assert report.optimizer_steps == steps
    for before, ours, theirs in zip(
        first, policy.model.parameters(), reference.parameters(), strict=True
    ):
        # Adam turns rounding of a gradient near nought into a step of up to the whole rate: compare
        # the whole tensor
        assert (ours - theirs).norm() <= 2e-3 * (theirs - before).norm()


def test_gradient_clipping_is_on_the_whole_step_and_reported_before_it() -> None:
    policy = tiny_policy(eos=MANY_EOS)
    trainer = trainer_of(policy, max_grad_norm=0.01, token_budget=40)
    taken = gradients_of(trainer)
    assert trainer.update(local_groups(policy)).grad_norm > 0.1
    assert parameters_to_vector(taken).norm().item() == pytest.approx(0.01, rel=1e-3)


# --- uninformative, no step -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "idle",
    [
        [],
        [text_group([0.1] * 8, ["12"] * 8)],
        [text_group([1.0] * 4, ["1", "22", "333", ""]), text_group([0.0] * 2, ["a", "b"])],
        [text_group([0.0, 1.0], ["", ""], ended=[False, False])],
        [text_group([0.0, 0.5, 1.0], ["", "34", ""], ended=[False, True, False])],
    ],
    ids=[
        "no group",
        "equal partial rewards",
        "all right and all wrong",
        "no token",
        "every advantage nought",
    ],
)
def test_an_uninformative_batch_changes_no_bit_of_weights_or_optimiser(idle) -> None:
    policy = tiny_policy(eos=MANY_EOS)
    trainer = trainer_of(policy, weight_decay=0.1)
    trainer.update(local_groups(policy))  # so that there is momentum that could move the weights
    weights, state = weights_of(policy.model), adam_state(trainer)
    assert len(state) > 10
    report = trainer.update(idle)
    assert (report.optimizer_steps, report.trained_tokens, report.loss, report.grad_norm) == (
        0,
        0,
        None,
        None,
    )
    assert all(map(torch.equal, weights, weights_of(policy.model)))
    assert all(map(torch.equal, state, adam_state(trainer))) and trainer.steps == 1


def test_uninformative_groups_change_nothing_beside_informative_groups() -> None:
    def train(extra: list[Group]) -> list[torch.Tensor]:
        policy = tiny_policy(eos=MANY_EOS)
        trainer_of(policy).update(local_groups(policy) + extra)
        return weights_of(policy.model)

    assert all(
        map(torch.equal, train([]), train([text_group([0.5] * 4, ["one", "two", "three", "four"])]))
    )


def test_a_gradient_that_is_not_finite_is_counted_and_takes_no_step() -> None:
    policy = tiny_policy()
    # Ratio exp(200)
    weights, bad = weights_of(policy.model), token_group([0.0, 1.0], [[5], [6]], [[-200.0], [-1.0]])
    report = GrpoTrainer(policy, TrainingConfig(), GENERATION, objective=clipped).update([bad])
    assert report.skipped == {"gradient not finite": 1} and report.optimizer_steps == 0
    assert all(map(torch.equal, weights, weights_of(policy.model)))


# --- what is trained on ---------------------------------------------------------------------------


def targets_of(policy, groups) -> list[list[int]]:
    """Completion ids that an update trains on."""
    return [
        list(row.ids) for group in groups for row in tokenise(group, group.rewards, policy).rows
    ]


def test_local_groups_are_trained_on_the_very_tokens_and_prompts_of_the_generator(
    monkeypatch,
) -> None:
    policy = tiny_policy(eos=MANY_EOS)
    groups, received = local_groups(policy, count=3), text_group([0.0, 1.0], ["abc", "12"])
    assert targets_of(policy, groups) == [
        list(tokens.ids) for group in groups for tokens in tokens_of(group)
    ]
    encode, encoded = policy.encode_prompt, list[str]()
    monkeypatch.setattr(policy, "encode_prompt", lambda text: encoded.append(text) or encode(text))
    found = [tokenise(group, group.rewards, policy) for group in (*groups, received)]
    assert [list(group.prompt_ids) for group in found] == [
        encode(group.prompt) for group in (*groups, received)
    ]
    assert encoded == [received.prompt]


def test_eos_is_trained_where_an_external_completion_has_ended() -> None:
    received = text_group([0.0, 1.0], ["12", "12"], ended=[True, False])
    plain = characters()("12").input_ids
    assert targets_of(tiny_policy(), [received]) == [[*plain, EOS], plain]


def test_a_text_that_spells_a_control_token_stays_text() -> None:
    policy = tiny_policy()
    for name in ("<eos>", "<pad>", "<bos>"):
        ids = policy.encode_completion(f"1{name}2", ended=False)
        assert policy.decode([ids]) == [f"1{name}2"] and min(ids) > 3
    # Which is what an unguarded tokenizer makes of it
    assert policy.tokenizer("<eos>").input_ids == [EOS]


@pytest.mark.parametrize("chat", [False, True])
def test_an_external_completion_of_any_characters_can_be_trained_on(chat) -> None:
    policy = tiny_policy(chat=chat)
    texts = [
        "\x00\x1b[2J",
        "\u202e\ufeff\U0001f600",
        "\n" * 50,
        " " * 90,
        "<|im_end|>",
        "</s>",
        "é" * 30,
        "0",
    ]
    assert trainer_of(policy).update([text_group([0.0] * 7 + [1.0], texts)]).optimizer_steps == 1
    assert all(torch.isfinite(w).all() for w in policy.model.parameters())


def test_an_empty_completion_that_ended_is_trained_as_its_eos_and_one_cut_off_is_left_out() -> None:
    policy = tiny_policy()
    assert policy.encode_completion("", ended=True) == [EOS]
    report = trainer_of(policy).update(
        [text_group([0.0, 1.0, 1.0], ["", "", "7"], ended=[True, False, False])]
    )
    assert (report.optimizer_steps, report.trained_tokens) == (1, 2)


def test_an_external_group_longer_than_the_context_is_skipped_and_counted() -> None:
    policy = tiny_policy()
    report = trainer_of(policy).update(
        [text_group([0.0, 1.0], ["1" * 200, "2"]), *local_groups(policy)]
    )
    assert (report.skipped, report.optimizer_steps, report.trained_groups) == (
        {"longer than the context": 1},
        1,
        2,
    )


# --- ratio, clip, normalisation -------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("temperature", [1.0, 0.6, 1.7])
@pytest.mark.parametrize("family", ["Llama", "GPT2"])
def test_generation_records_the_log_probs_that_training_finds(family, temperature, padded) -> None:
    policy = tiny_policy(family, eos=MANY_EOS)
    generation = GenerationConfig(max_completion_length=12, temperature=temperature)
    groups = local_groups(policy, count=3, generation=generation)
    report = trainer_of(policy, generation, padded=padded).update(groups)
    assert report.ratio_mean == pytest.approx(1.0, abs=1e-4) and report.clip_fraction == 0.0
    fresh = tiny_policy(family, eos=MANY_EOS)
    for group in groups:
        for tokens in tokens_of(group):  # one by one, against a forward without any padding
            with torch.no_grad():
                found = plain_log_probs(
                    fresh.model, fresh.encode_prompt(group.prompt), tokens.ids, temperature
                )
            torch.testing.assert_close(found, torch.tensor(tokens.log_probs), atol=1e-4, rtol=0)


@pytest.mark.parametrize("external", [False, True])
def test_the_ratio_leaves_one_with_several_passes(external) -> None:
    policy = tiny_policy(eos=MANY_EOS)
    groups = local_groups(policy)
    if external:
        groups = [scored(group, group.prompt, group.rewards) for group in groups]
    once, twice = (
        trainer_of(copy.deepcopy(policy), num_iterations=passes).update(groups) for passes in (1, 2)
    )
    assert once.ratio_mean == pytest.approx(1.0, abs=1e-5)
    assert abs(twice.ratio_mean - 1.0) > 1e-3 and twice.clip_fraction > 0.01
    assert twice.optimizer_steps == 2 and twice.trained_tokens == 2 * once.trained_tokens


@pytest.mark.slow
@pytest.mark.parametrize("loss_type", ["grpo", "dapo", "dr_grpo"])
@pytest.mark.parametrize("padded", [False, True])
def test_micro_batches_of_any_size_add_up_to_the_same_step(loss_type, padded) -> None:
    def gradient(budget: int, dynamic: bool = False) -> tuple[float, torch.Tensor, int]:
        policy = tiny_policy(eos=MANY_EOS)
        groups, calls = local_groups(policy, count=4), []
        trainer = trainer_of(policy, loss_type=loss_type, padded=padded, token_budget=budget)
        if dynamic:  # as on a GPU
            trainer._batching = dynamic_batches
        policy.model.get_input_embeddings().register_forward_pre_hook(lambda *_: calls.append(1))
        found = gradients_of(trainer)
        return trainer.update(groups).loss, parameters_to_vector(found), len(calls)

    whole = gradient(10**6)
    for parts in (gradient(30), gradient(30, dynamic=True)):
        assert whole[2] < parts[2] and parts[0] == pytest.approx(whole[0], abs=1e-6)
        torch.testing.assert_close(parts[1], whole[1], atol=1e-6, rtol=1e-4)


# --- memory: what a peer sends does not decide how much is held at once ---------------------------


@pytest.mark.slow
@pytest.mark.parametrize("padded", [False, True])
def test_no_forward_of_an_update_is_larger_than_the_budget(padded) -> None:
    policy, sizes = tiny_policy(max_position_embeddings=512), list[int]()
    trainer = trainer_of(policy, padded=padded, token_budget=600, num_iterations=2, beta=0.1)
    policy.model.get_input_embeddings().register_forward_pre_hook(
        lambda _, ids: sizes.append(ids[0].numel())
    )
    received = text_group([0.0] * 31 + [1.0], [str(k) * 100 for k in range(32)])
    assert (
        trainer.update([received, *[text_group([0.0, 1.0], ["1", "a"])] * 3]).optimizer_steps == 2
    )
    assert max(sizes) <= 600 and sum(sizes) > 32 * 100


@pytest.mark.slow
@pytest.mark.parametrize("frugal", [False, True])
def test_on_a_cpu_a_long_prompt_is_computed_once_and_short_groups_a_few_at_a_time(
    frugal, monkeypatch
) -> None:
    policy, sizes = with_lora(tiny_policy(max_position_embeddings=512)), list[int]()
    monkeypatch.setitem(MICRO_BATCH, "cpu", 256)
    policy.frugal = frugal
    trainer = trainer_of(policy, token_budget=1024 if frugal else 0)
    policy.model.get_input_embeddings().register_forward_pre_hook(
        lambda _, ids: sizes.append(ids[0].numel())
    )
    lengths = {"p": 90, "q": 30, "r": 30, "s": 30}
    groups = [text_group([0.0, 1.0], ["1" * n, "a" * n], c * 2 * n) for c, n in lengths.items()]
    assert trainer.update(groups).trained_groups == 4
    assert sizes == [4 * 90, 2 * 4 * 30, 4 * 30]


# --- external completions that are not trusted ----------------------------------------------------


def mixed_group(policy) -> Group:
    """Two local completions and two of a peer, one of each right."""
    (own,) = local_groups(policy, count=1, size=2)
    texts = [c.text for c in own.episodes] + ["7!x", "ab"]
    received = text_group([0.0, 1.0, 1.0, 0.0], texts, own.prompt)
    return scored(received, own.prompt, received.rewards, (*tokens_of(own), None, None))


@pytest.mark.parametrize("padded", [False, True])
def test_an_objective_is_told_which_tokens_a_peer_generated(padded) -> None:
    policy = tiny_policy(eos=MANY_EOS)
    group = mixed_group(policy)
    rewards, prompt = list(group.rewards), characters()(group.prompt).input_ids
    reference, total = copy.deepcopy(policy.model), torch.zeros(())
    for tokens, reward in zip(group.tokens, rewards, strict=True):
        if tokens:
            log_probs = plain_log_probs(reference, prompt, list(tokens.ids))
            ratio = (log_probs - log_probs.detach()).exp()
            total = total - (ratio * (reward - fmean(rewards)) / stdev(rewards)).mean() / 4
    total.backward()

    def without_external(terms, bounds):
        return clipped(
            terms._replace(advantages=terms.advantages.masked_fill(terms.external, 0.0)), bounds
        )

    training = TrainingConfig(max_grad_norm=1e9)
    trainer = GrpoTrainer(policy, training, GENERATION, objective=without_external, padded=padded)
    found = gradients_of(trainer)
    trainer.update([group])
    torch.testing.assert_close(
        found, [each.grad for each in reference.parameters()], atol=1e-5, rtol=1e-3
    )


def test_a_mixed_group_keeps_the_recorded_log_probs_of_its_own_half_over_several_steps() -> None:
    policy = tiny_policy(eos=MANY_EOS)
    group = mixed_group(policy)
    shifted = [
        t and replace(t, log_probs=tuple(p - 0.1 for p in t.log_probs)) for t in group.tokens
    ]
    report = GrpoTrainer(
        policy, TrainingConfig(learning_rate=1e-9, num_iterations=2), GENERATION
    ).update([with_tokens(group, shifted)])
    own, others = sum(len(t.ids) for t in tokens_of(group) if t), len("7!x") + len("ab") + 2
    assert report.ratio_mean == pytest.approx(
        (own * math.exp(0.1) + others) / (own + others), abs=1e-4
    )


# --- completions of older weights -----------------------------------------------------------------


def stale(groups: list[Group], shift: float, version: int = 0) -> list[Group]:
    """The groups as if weights of that version had generated them, with every token exp(shift)
    times as likely.
    """

    def older(t: Tokens) -> Tokens:
        return Tokens(t.ids, tuple(x + shift for x in t.log_probs), (version,) * len(t.ids))

    return [with_tokens(group, [older(t) for t in tokens_of(group)]) for group in groups]


def gradient_of(objective: str, shift: float, **training) -> list[torch.Tensor]:
    policy = tiny_policy(eos=MANY_EOS)
    config = TrainingConfig(objective=objective, max_grad_norm=1e9, **training)
    trainer = GrpoTrainer(
        policy, config, GENERATION, objective=plugins.load("objectives", objective)
    )
    seen = gradients_of(trainer)
    trainer.update(stale(local_groups(policy), shift))
    return seen


def test_stale_text_weighs_by_what_it_has_become_within_the_limit() -> None:
    """All tokens are 2, 4, then 10 times as likely now as when they were generated. The decoupled
    gradient is then 2 and 4 times the fresh one, and there is none: as AReaL does, it masks tokens
    beyond 5, and no step is taken. The truncated one is held at twice the fresh one. The clipped
    objective has clipped every good token away.
    """
    fresh = gradient_of("decoupled", 0.0)
    for shift, factor in ((-math.log(2.0), 2.0), (-math.log(4.0), 4.0)):
        expected = [factor * each for each in fresh]
        torch.testing.assert_close(gradient_of("decoupled", shift), expected, rtol=1e-3, atol=1e-6)
    assert gradient_of("decoupled", -math.log(10.0)) == []
    found, expected = gradient_of("truncated", -math.log(10.0)), [2.0 * each for each in fresh]
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-6)
    naive = gradient_of("clipped", -math.log(10.0))
    assert not any(torch.allclose(x, 5.0 * y, rtol=1e-1) for x, y in zip(naive, fresh, strict=True))


@pytest.mark.parametrize(
    "objective", ["decoupled", "truncated", "swarm_node.training.objectives:decoupled"]
)
def test_with_several_steps_the_proximal_policy_is_that_before_the_first(objective) -> None:
    """On fresh text, later steps take the ratio to the policy before the first step, as PPO
    does.
    """
    results = []
    for name in (objective, "clipped"):
        policy = tiny_policy(eos=MANY_EOS)
        config = TrainingConfig(objective=name, num_iterations=3, learning_rate=1e-2)
        GrpoTrainer(policy, config, GENERATION, objective=plugins.load("objectives", name)).update(
            local_groups(policy)
        )
        results.append(weights_of(policy.model))
    assert all(torch.allclose(x, y, atol=1e-4) for x, y in zip(*results, strict=True))


def test_an_objective_without_proximal_costs_no_pass_more_whatever_it_is_called() -> None:
    """The name of a configuration says nothing of what an objective reads."""
    passes = {}
    for name in ("clipped", "swarm_node.training.objectives:clipped", "decoupled"):
        policy = tiny_policy(eos=MANY_EOS)
        log_probs, calls = policy.log_probs, []

        def counted(*given, log_probs=log_probs, calls=calls, **more):
            calls.append(given)
            return log_probs(*given, **more)

        policy.log_probs = counted
        config = TrainingConfig(objective=name, num_iterations=2)
        GrpoTrainer(policy, config, GENERATION, objective=plugins.load("objectives", name)).update(
            local_groups(policy)
        )
        passes[name] = len(calls)
    assert passes["clipped"] == passes["swarm_node.training.objectives:clipped"]
    assert passes["clipped"] < passes["decoupled"]


@pytest.mark.parametrize("padded", [False, True])
def test_only_differences_trains_on_the_tokens_that_tell_completions_apart(padded) -> None:
    """As in the recipe published for Temporal Clue: the completion of advantage 0 and the beginning
    of all, 11 12, have no weight and do not count; each other completion weighs the same.
    """
    completions = [[11, 12, 13, 14, 15], [11, 12, 16], [11, 12, 17, 18], [11, 12, 19]]
    rewards, prompt = [1.0, 0.5, 0.0, 0.5], "12+30="
    policy = tiny_policy()
    reference, ids = copy.deepcopy(policy.model), policy.encode_prompt(prompt)
    old = [plain_log_probs(policy.model, ids, each).tolist() for each in completions]
    trainer = trainer_of(policy, padded=padded, only_differences=True, max_grad_norm=1e9)
    seen = gradients_of(trainer)
    report = trainer.update([token_group(rewards, completions, old, prompt)])
    total = torch.zeros(())
    for number, sign in ((0, 1.0), (2, -1.0)):
        # mean 1/2, deviation the root of 1/6
        advantage = sign * 0.5 * math.sqrt(6)
        apart = plain_log_probs(reference, ids, completions[number])[2:]
        total = total - advantage * (apart - apart.detach()).exp().mean() / 2
    total.backward()
    expected = [p.grad for p in reference.parameters() if p.grad is not None]
    torch.testing.assert_close(seen, expected, rtol=1e-4, atol=1e-6)
    assert (report.trained_tokens, report.trained_groups) == (5, 1)


def test_staleness_is_reported_in_updates_and_an_uninformative_round_counts_as_one() -> None:
    policy = tiny_policy(eos=MANY_EOS)
    trainer, groups = trainer_of(policy), local_groups(policy)
    assert trainer.update(stale(groups, 0.0)).staleness == 0.0
    trainer.update([])
    assert policy.version == 2
    old, new = stale(groups[:1], 0.0), stale(groups[1:], 0.0, version=2)
    assert 0.0 < trainer.update(old + new).staleness < 2.0
    assert trainer.update(stale(groups, 0.0, version=3)).staleness == 0.0
