"""Strings that end a completion: the same text from each decoder, and an end that training sees."""

import pytest
import torch
from torch.nn.utils import parameters_to_vector

from protocol.messages import Episode
from swarm_node.generation.decoding import ModelDecoder, RecomputeDecoder
from swarm_node.generation.generator import BatchGenerator
from swarm_node.generation.stops import Stops
from swarm_node.policy.batch import tokenise
from swarm_node.policy.llama.llama_decoder import LlamaDecoder
from swarm_node.policy.policy import Frame
from swarm_node.rollouts.groups import Completions
from swarm_node.settings import GenerationConfig, ModelConfig, TrainingConfig
from swarm_node.training.trainer import GrpoTrainer
from tests.groups import episodes_of, scored, tokens_of
from tests.models import MANY_EOS, gradients_of, text_group, tiny_policy

PROMPTS = ["7:", "1+2=", "x" * 30]


def generate(policy, stop=(), decoder=None, block=None) -> list[Completions]:
    generator = BatchGenerator(policy, GenerationConfig(max_completion_length=24, stop=stop))
    generator._decoder_type = decoder or generator._decoder_type
    generator._block = block or generator._block
    return generator.generate(PROMPTS, 8, "s")


def texts_of(groups) -> list[tuple[str, bool]]:
    return [(each.text, each.ended) for group in groups for each in episodes_of(group)]


@pytest.mark.parametrize("stop", [("a",), ("b", "1"), ("e1", "0")], ids=str)
@pytest.mark.parametrize("decoder", [LlamaDecoder, ModelDecoder, RecomputeDecoder])
def test_each_decoder_ends_the_same_text_before_the_first_of_the_strings(decoder, stop) -> None:
    policy = tiny_policy("Llama", eos=MANY_EOS)
    free = texts_of(generate(policy))
    stopped = texts_of(generate(policy, stop, decoder))
    for (whole, ended), found in zip(free, stopped, strict=True):
        places = [whole.find(each) for each in stop if each in whole]
        assert found == ((whole[: min(places)], True) if places else (whole, ended))
    assert sum(a != b for a, b in zip(free, stopped, strict=True)) > 2


def test_blocks_of_many_tokens_give_the_same_tokens_as_single_ones() -> None:
    policy = tiny_policy("Llama", eos=MANY_EOS)
    one, many = generate(policy, ("a", "3")), generate(policy, ("a", "3"), block=7)
    assert texts_of(one) == texts_of(many)
    assert [t.ids for g in one for t in tokens_of(g)] == [t.ids for g in many for t in tokens_of(g)]
    ends = [tokens.ids for group in one for tokens in tokens_of(group)]
    (a,), (three,) = (policy.tokenizer(text).input_ids for text in ("a", "3"))
    assert any(ids[-1] in (a, three) for ids in ends) and not any(
        {a, three} & set(ids[:-1]) for ids in ends
    )


def test_a_string_may_span_tokens_and_the_first_one_counts() -> None:
    policy = tiny_policy()
    ids = policy.tokenizer("ab12").input_ids
    assert len(ids) == 4
    stops = Stops(policy, ("b1", "12"))
    assert [stops.end(ids[:n]) for n in (1, 2, 3)] == [False, False, True]
    assert stops.completions([ids[:3], ids[:2]]) == (
        Episode.of(text="a", ended=True),
        Episode.of(text="ab", ended=False),
    )
    assert not Stops(policy, ())


def test_an_own_group_that_comes_back_as_a_peers_has_the_same_tokens_and_gradient() -> None:
    policy = tiny_policy("Llama", eos=MANY_EOS)
    policy.frame = Frame(stop="a")
    generated = generate(policy, ("a",))[0]
    kept = [
        i
        for i, each in enumerate(episodes_of(generated))
        if each.ended and tokens_of(generated)[i].ids[-1] not in policy.eos_ids
    ]
    completions, tokens = (
        [part[i] for i in kept] for part in (episodes_of(generated), tokens_of(generated))
    )
    assert len(kept) > 1
    rewards = tuple(float(i == 0) for i in range(len(kept)))
    group = text_group(list(rewards), [each.text for each in completions], PROMPTS[0])
    group = group.message().model_copy(update={"episodes": tuple(completions)})
    own = scored(group, PROMPTS[0], rewards, tuple(tokens))
    external = scored(group, PROMPTS[0], rewards)
    ids = [
        [tuple(row.ids) for row in tokenise(each, rewards, policy).rows] for each in (own, external)
    ]
    assert ids[0] == ids[1]
    found = []
    for each in (own, external):
        fresh = tiny_policy("Llama", eos=MANY_EOS)
        fresh.frame = policy.frame
        trainer = GrpoTrainer(
            fresh, TrainingConfig(max_grad_norm=1e9), GenerationConfig(stop=("a",))
        )
        gradients = gradients_of(trainer)
        trainer.update([each])
        found.append(parameters_to_vector(gradients))
    torch.testing.assert_close(found[0], found[1], atol=1e-6, rtol=1e-4)
    policy.frame = Frame()
    # Ended by EOS
    assert [tuple(row.ids) for row in tokenise(external, rewards, policy).rows] != ids[0]


def test_a_system_turn_and_arguments_reach_the_template() -> None:
    chat, plain = tiny_policy(chat=True), tiny_policy()
    for policy in (chat, plain):
        before = policy.encode_prompt("1+1=")
        policy.frame = Frame(system="Be brief.")
        told = policy.encode_prompt("1+1=")
        assert len(told) > len(before) and "Be brief." in policy.tokenizer.decode(told)
    chat.tokenizer.chat_template = (
        "{% if short %}S{% else %}L{% endif %}{{ messages[-1]['content'] }}"
    )
    chat.frame = Frame(arguments={"short": True})
    assert chat.tokenizer.decode(chat.encode_prompt("1")) == "S1"


def test_options_are_read_as_people_write_them() -> None:
    assert GenerationConfig(stop=["\\n", "a,b"]).stop == ("\n", "a,b")
    assert GenerationConfig(stop=["\n"]).stop == ("\n",)
    assert ModelConfig(template_arguments='{"enable_thinking": false}').template_arguments
    assert ModelConfig(template_arguments="none").template_arguments == "none"
    for wrong in ("[1]", "no"):
        with pytest.raises(ValueError, match="JSON object"):
            ModelConfig(template_arguments=wrong)
    with pytest.raises(ValueError):
        GenerationConfig(stop=[""])
