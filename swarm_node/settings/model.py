"""The model, how it generates completions, and what it is asked."""

import re
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from swarm_node.settings.sections import (
    Count,
    Grants,
    PlugIn,
    Positive,
    Section,
    Text,
    WithCommas,
    Words,
    json_object,
)

AnswerForm = Literal[
    "auto", "whole", "first_line", "tags", "boxed", "hashes", "last_number", "anywhere"
]
NO_TEMPLATE = "none"


def _escapes(text: str) -> str:
    """Makes a new line of a backslash and an n, which is what a shell passes; likewise a tab."""
    return text.replace("\\n", "\n").replace("\\t", "\t")


def _arguments(text: str) -> str:
    return text if text == NO_TEMPLATE else json_object(text)


def _of_url(name: str) -> str:
    """OWNER/NAME of the address of a model on the hub; other names as they are."""
    address = re.fullmatch(r"(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/(.*)", name.strip())
    if address is None:
        return name
    owner_and_name = re.fullmatch(r"([\w.-]+/[\w.-]+)(?:/tree/main)?/?(?:[?#].*)?", address[1])
    if owner_and_name is None or owner_and_name[1].startswith(("datasets/", "spaces/")):
        raise ValueError(
            "should be OWNER/NAME of a hub model; another branch or commit goes to model.revision"
        )
    return owner_and_name[1]


ModelName = Annotated[str, AfterValidator(_of_url)]
Stops = Annotated[
    tuple[Annotated[str, Field(min_length=1), AfterValidator(_escapes), Words()], ...],
    WithCommas(),
]


class ModelConfig(Section):
    """The model, where it runs, and the type of its numbers."""

    from_home: ClassVar[frozenset[str]] = frozenset({"template_arguments"})
    name: Annotated[ModelName, Grants("a model, by a folder or a name")] = "rare"
    """The model to train: smollm2-135m (SmolLM2-135M-Instruct, which is downloaded once; see
    docs/how-to/offline.md), a starter (dense, rare, very_rare, rarest, rare_small, rare_large,
    puzzler), a folder, or a name on the Hugging Face hub.
    """
    revision: Annotated[str, Grants("a model")] = ""
    """Commit, tag or branch of a model on the hub. Empty: its main branch. Checkpoints and model
    cards record the commit that was loaded, and a resumed run loads that commit.
    """
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Type of the weights. auto: bfloat16 for LoRA on a GPU that supports it, otherwise float32. On
    such a GPU matrix products use bfloat16 in any case, unless you set float32 here.
    """
    device: Text = "auto"
    """Where the model runs: cpu, cuda, cuda:1 or mps. auto: CUDA if there is a GPU for it,
    otherwise the CPU.
    """
    quantization: Literal["none", "nf4"] = "none"
    """Quantization of the frozen base model under LoRA. nf4: 4 bits a weight (QLoRA), which needs a
    quarter of the memory for these weights, takes more time, and needs the extra `memory`
    (bitsandbytes).
    """
    template_arguments: Annotated[str, AfterValidator(_arguments), Words()] = ""
    """Arguments for the model's chat template, as a JSON object, such as '{"enable_thinking":
    false}'. none: use no template, so that the model continues the prompt as plain text. That suits
    prompts with few-shot examples.
    """
    lora_rank: Count = 0
    """Rank of the LoRA adapters (peft) that are trained instead of the weights. They are added to
    all linear layers except the output head, with their output multiplied by 2. 0: train all
    weights.
    """


class GenerationConfig(Section):
    """How completions are generated."""

    from_home: ClassVar[frozenset[str]] = frozenset({"max_completion_length", "stop"})
    num_generations: Annotated[int, Field(ge=2, le=64)] = 8
    """Number of completions per prompt: the GRPO group size G."""
    max_completion_length: Positive = 16
    """Tokens after which a completion is cut off."""
    stop: Stops = ()
    """Strings that end a completion; the completion does not include them. \\n and \\t stand for a
    new line and a tab. External completions that ended by themselves are given the first of these
    strings as their end, instead of EOS. Empty: only EOS ends a completion.
    """
    temperature: Annotated[float, Field(gt=0.0)] = 1.0
    """Sampling temperature: the logits are divided by it, and the loss divides them by the same
    value.
    """
    stop_below: Annotated[float, Field(le=0.0)] = 0.0
    """Stop a completion when the exponentially weighted mean of its log-probs falls below this
    value, in nats per token. 0: never. The published recipe for Temporal Clue uses -3.0.
    """


class EnvironmentConfig(Section):
    """Where prompts come from, and how completions are scored."""

    from_home: ClassVar[frozenset[str]] = frozenset(
        {"tasks", "at_once", "scoring", "answer", "shots", "system"}
    )
    use: tuple[Annotated[str, PlugIn("environments")], ...] = ()
    """Environments from elsewhere: names that installed packages register, or FILE:CLASS for a file
    next to the configuration, such as my_task:WordReversal. The environments of this program need
    not be named.
    """
    tasks: tuple[Text, ...] = ()
    """Tasks to train on, as dataset/config, such as chain_sum/easy or temporal_clue/tiny. Empty:
    the tasks of questions that you bring, such as those of a file, otherwise all tasks of the
    environments in `use`. If `use` is empty too: the nine tasks of the starters.
    """
    at_once: Count = 0
    """Number of tasks to train on at the same time. The node works through the list, and moves on
    from a task when it gets 90 % of the held-out questions right (this needs `validation.every`).
    0: all tasks at once. An asynchronous node stays with the tasks it started with.
    """
    scoring: Literal["exact", "graded"] = "exact"
    """exact: the reward is 1 for a correct completion, otherwise 0. graded: the data set's own
    partial credit counts as well.
    """
    answer: AnswerForm = "auto"
    """Where in a completion the answer is; the prompt tells the model. auto: what the environment
    prefers, which is whole for most. whole: the completion is the answer and nothing else. The
    other forms allow text around the answer, such as reasoning. That text is trained on, but it
    earns no reward by itself: first_line, tags (<answer>), boxed (\\boxed{}), hashes (after ####),
    last_number, and anywhere, where the task's verifier looks for the answer in the whole text.
    Thinking (<think>) is not part of an answer, except with whole and first_line, where it makes
    the answer wrong.
    """
    shots: Count = 0
    """Number of few-shot examples: questions of the same task, with their answers, that come before
    each question. Held-out questions are never used for this. 0: as many as the task has by itself.
    """
    system: Text = ""
    """What the model is told before every prompt: the system turn of a chat template or, for a
    model without a template, a paragraph of its own.
    """
    time_limit: Annotated[float, Field(gt=0.0), Grants("more time for a scorer")] = 5.0
    """Seconds that scoring one group may take. After that scoring is stopped, and the group is
    skipped.
    """
