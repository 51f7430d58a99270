"""What a node puts behind an external completion that ended: the token by which its own model ends
a turn. The chat templates, names of end tokens and lists of them are those that each family
published.
"""

import pytest
import torch

from swarm_node.policy.policy import Frame, Policy
from tests.models import characters, tiny_model

LLAMA = """{% for message in messages %}\
{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>

'+ message['content'] | trim + '<|eot_id|>' %}\
{% if loop.index0 == 0 %}{% set content = bos_token + content %}\
{% endif %}{{ content }}{% endfor %}\
{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>

' }}{% endif %}"""
GEMMA = """{{ bos_token }}{% for message in messages %}\
{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}\
{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}\
{% endif %}\
{% if (message['role'] == 'assistant') %}{% set role = 'model' %}\
{% else %}{% set role = message['role'] %}{% endif %}\
{{ '<start_of_turn>' + role + '
' + message['content'] | trim + '<end_of_turn>
' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model
'}}{% endif %}"""
PHI = """{% for message in messages %}{{ '<|' + message['role'] + '|>
' + message['content'] + '<|end|>
' }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>
' }}{% else %}{{ eos_token }}{% endif %}"""
CHATML = """{% for message in messages %}{{ '<|im_start|>' + message['role'] + '
' + message['content'] + '<|im_end|>
' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant
' }}{% endif %}"""
NO_ANSWERS = (
    "{% if messages[-1]['role'] != 'user' %}{{ raise_exception('only questions') }}{% endif %}?"
)
# Template, EOS of the tokenizer, end tokens of the generation config, the one that ends a turn
FAMILIES = {
    "Llama 3": (LLAMA, "<|end_of_text|>", ("<|end_of_text|>", "<|eot_id|>"), "<|eot_id|>"),
    "Llama 3.1": (
        LLAMA,
        "<|eot_id|>",
        ("<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"),
        "<|eot_id|>",
    ),
    "Gemma": (GEMMA, "<eos>", ("<eos>", "<end_of_turn>"), "<end_of_turn>"),
    "Phi 3": (PHI, "<|endoftext|>", ("<|endoftext|>", "<|assistant|>", "<|end|>"), "<|end|>"),
    "Qwen": (CHATML, "<|im_end|>", ("<|im_end|>", "<|endoftext|>"), "<|im_end|>"),
    "a base model of Qwen, which never ends a turn": (
        CHATML,
        "<|endoftext|>",
        ("<|endoftext|>",),
        "<|endoftext|>",
    ),
    "a template that takes no answers": (NO_ANSWERS, "<eos>", ("<end>", "<eos>"), "<eos>"),
}


def chat_policy(template: str, eos: str, ends: tuple[str, ...], **model: int) -> Policy:
    tokenizer = characters()
    tokenizer.add_special_tokens(
        {"eos_token": eos, "additional_special_tokens": [*ends, "<|im_end|>"]}
    )
    tokenizer.chat_template = template
    model = tiny_model(vocab_size=len(tokenizer), **model)
    model.generation_config.eos_token_id = tokenizer.convert_tokens_to_ids(list(ends))
    return Policy(model, tokenizer, torch.device("cpu"))


@pytest.mark.parametrize("family", FAMILIES)
def test_an_external_completion_that_ended_gets_the_token_that_ends_a_turn(family: str) -> None:
    template, eos, ends, expected = FAMILIES[family]
    policy = chat_policy(template, eos, ends)
    ids = policy.encode_completion(f"4 {expected}", ended=True)
    assert policy.tokenizer.convert_ids_to_tokens(ids[-1:]) == [expected]
    assert not set(ids[:-1]) & policy.eos_ids, "text that spells an end token stays text"
    assert not set(policy.encode_completion("4", ended=False)) & policy.eos_ids


def test_a_model_that_gets_prompts_as_text_to_go_on_with_ends_a_text() -> None:
    template, eos, ends, _ = FAMILIES["Gemma"]
    policy = chat_policy(template, eos, ends)
    policy.frame = Frame(chat=False)
    assert policy.encode_completion("4", ended=True)[-1] == policy.tokenizer.eos_token_id
