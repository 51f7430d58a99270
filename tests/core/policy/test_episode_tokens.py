"""Episodes as tokens: chat templates are appended to or left alone, and what an environment wrote
is masked.
"""

from importlib.resources import files

import pytest
import torch

from protocol.messages import Episode, Turn
from swarm_node.policy.policy import Policy
from swarm_node.rollouts.transcript import encode_episode
from tests.models import characters, tiny_model

SPECIAL = {
    "qwen2_5": "<|im_end|>",
    "qwen3": "<|im_end|>",
    "llama3": "<|eot_id|>",
    "gemma": "<end_of_turn>",
}
SPECIAL |= {"phi3": "<|end|>", "smolvlm": "<end_of_utterance>"}
# Qwen3 drops past reasoning, SmolVLM writes a space that its generation prompt lacks
PLAIN = {"qwen3", "smolvlm"}


def chat_policy(template: str) -> Policy:
    """A policy over characters with a published chat template, as TRL carries it."""
    tokenizer, model = characters(), tiny_model(vocab_size=100)
    tokenizer.add_special_tokens({"eos_token": SPECIAL[template]})
    tokenizer.chat_template = (
        files("trl").joinpath("chat_templates", f"{template}.jinja").read_text()
    )
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    return Policy(model, tokenizer, torch.device("cpu"))


@pytest.mark.parametrize("template", SPECIAL)
def test_turns_are_appended_as_the_template_writes_the_whole_chat(template) -> None:
    policy = chat_policy(template)
    said = (("user", "guess"), ("assistant", "5"), ("user", "higher"))
    chat = [{"role": role, "content": content} for role, content in said]
    turns = (Turn(calls=(), text="5"), Turn(calls=(), text="7"))
    ids, mask = encode_episode(
        Episode(ended=True, trace="A" * 11, turns=turns), [["higher"]], policy
    )
    whole = [*policy.encode_prompt("guess"), *ids]
    rendered = policy.tokenizer.apply_chat_template(
        chat, add_generation_prompt=True, return_dict=False
    )
    own = policy.decode([[i for i, written in zip(ids, mask, strict=True) if written]])
    assert own == ["57"]
    assert (whole[: len(rendered)] == rendered) is (template not in PLAIN)
    assert ("<result>higher</result>\n" in policy.decode([ids])[0]) is (template in PLAIN)
