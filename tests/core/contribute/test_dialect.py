"""What is learnt from the words with which servers refuse a request, and what from none."""

import pytest

from swarm_node.contribute.answer import complaint_of
from swarm_node.contribute.dialect import Dialect, cure
from swarm_node.settings import EnvironmentConfig
from swarm_node.settings.contribute import ContributeConfig
from swarm_node.settings.secret import SecretUrl

WORDS = [  # what is learnt, and the words that it is learnt from
    ("length", "Unrecognized request argument supplied: max_tokens"),
    ("length", "max_tokens: Extra inputs are not permitted"),
    ("length", "this model requires `max_completion_tokens`"),
    ("", "max_tokens must be less than or equal to 256"),
    (
        "",
        "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens "
        "and 512 `max_new_tokens`",
    ),
    (
        "",
        "This model's maximum context length is 4096 tokens. However, you requested 4500 "
        "tokens (3988 in the messages, 512 in the completion). Please reduce the length "
        "of the messages or completion.",
    ),
    ("single", "n must be 1 when using greedy sampling"),
    ("single", "Invalid value for 'n': must be 1"),
    ("single", "Number of completions n = 8 is not supported"),
    ("single", "currently only n = 1 is supported"),
    ("single", "n > 1 not supported"),
    ("single", "Multiple completions are not supported"),
    ("single", "json: unknown field \"n\""),
    ("single", "You requested n=8 but n should be <= 4"),
    ("stream", "This endpoint only supports streaming"),
    ("stream", "Please set stream=true"),
    ("stream", "Non-streaming requests are not supported"),
    ("stream", "`stream` is required to be true for this model"),
    ("system", "Conversation roles must alternate user/assistant/user/assistant/..."),
    ("system", "Developer instruction is not enabled for models/gemma-3"),
    ("system", "messages[0].role does not support 'system' with this model."),
    ("without stop", "Invalid type for 'stop': expected a string"),
    ("without reasoning_effort", "Unsupported parameter: 'reasoning_effort'"),
    (
        "without chat_template_kwargs",
        "extra_forbidden: body.chat_template_kwargs: Extra inputs are not permitted",
    ),
    ("without temperature", "`temperature` is deprecated for this model."),
    (
        "without temperature",
        "Unsupported value: 'temperature' does not support 0.7 with this model. Only the "
        "default (1) value is supported.",
    ),
    ("", "The model `gpt-x` does not exist or you do not have access to it."),
    ("", "Invalid API key in system configuration"),
    ("", "You are not authorized"),
    ("", "messages must not be empty"),
    ("", "Provider returned error: upstream stream ended"),
    ("parts", "messages.0.content: Input should be a valid list"),
    ("", "content is too long"),
]  # fmt: skip
CONFIG = ContributeConfig(
    api=SecretUrl("http://m.example/v1"),
    model="gpt-x",
    stop=("#",),
    thinking=False,
    environment=EnvironmentConfig(system="Be brief."),
)


def learnt(words: str) -> str:
    """What differs in the request that is made after these words."""
    dialect = Dialect(CONFIG, {})
    before = dialect.body("1 + 1", 8)
    dialect.learn(complaint_of({"error": {"message": words}}), before)
    after = dialect.body("1 + 1", 8)
    gone = before.keys() - after.keys()
    if "max_completion_tokens" in after:
        return "length"
    if after.get("stream"):
        return "stream"
    if gone:
        return "single" if gone == {"n"} else f"without {', '.join(gone)}"
    if len(after["messages"]) < len(before["messages"]):
        return "system"
    return "parts" if after["messages"] != before["messages"] else ""


@pytest.mark.parametrize(("lesson", "words"), WORDS)
def test_the_words_of_a_refusal_say_what_to_ask_otherwise(lesson: str, words: str) -> None:
    assert learnt(words) == lesson


@pytest.mark.parametrize("words", [words for lesson, words in WORDS if lesson])
def test_a_lesson_is_learnt_once(words: str) -> None:
    dialect, complaint = Dialect(CONFIG, {}), complaint_of({"error": {"message": words}})
    lessons = [dialect.learn(complaint, dialect.body("1 + 1", 8)) for _ in range(12)]
    told = [line for line in lessons if line]
    assert told and len(told) == len(set(told)) and not lessons[-1]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("max_tokens must be less than or equal to 256", "lower --max-tokens"),
        ("The model `gpt-x` does not exist", "name another --model"),
        ("this model gets messages that must not be empty", ""),
        ("You are not authorized", ""),
    ],
)
def test_a_cure_is_named_where_the_words_name_its_cause_alone(words: str, told: str) -> None:
    found = cure(complaint_of({"error": {"message": words}}), 400, CONFIG, {})
    assert found.startswith(told) and bool(found) == bool(told)
