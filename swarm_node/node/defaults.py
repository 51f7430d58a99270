"""What a node does where its user says nothing: its model, and the options that suit that model.
Loads no torch.

The model is, in this order: the one that the user names; the one that the home was trained with, if
it is one of ours; the one that suits the graphics card (policy/by_card.py), if there is a card and
a hub that answers; smollm2-135m; a starter. The tasks that such a model practises are chosen here
as well, until a user names some.

What the user gave, in a file, a variable or a flag, stays as it is.
"""

from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from swarm_node.common import memory
from swarm_node.common.card_memory import Room, room_of
from swarm_node.common.errors import UserError
from swarm_node.common.parsing import read_json
from swarm_node.environments.registry import by_kind, candidates, first_tasks, with_environment
from swarm_node.policy import by_card, named
from swarm_node.policy.by_card import Get, ModelForCard
from swarm_node.rollouts import curriculum
from swarm_node.settings import NO_TEMPLATE, LearningConfig, NodeConfig
from swarm_node.settings.sections import Section

STARTER = "rare"
# Bytes that the processes of a node with smollm2-135m take: docs/results/memory.md measured 2.33e9
NEEDED = 2.4e9
# First tasks asked at a time; shots where not all of them are texts to go on with
AT_ONCE, SHOTS = 4, 4
CHOSEN_QUESTIONS = 80  # held-out ones of the tasks that a node practises at a time, if it chooses
ROOM = 128  # tokens of a completion from which on a model has room to think, and is asked in a chat
STATE, STATE_BYTES = "checkpoints/[0-9]*/state.json", 1 << 29
MAX_RANK = 4096  # of adapters that a checkpoint may have
ALL_WEIGHTS = 1e-6  # learning rate where no adapters are trained
# Short answers that need some thinking. How many of them such a model answers was not measured here
CHAT_TASKS = (
    *("chain_sum/easy", "basic_arithmetic/easy", "time_intervals/easy", "calendar_arithmetic/easy"),
    *("leg_counting/easy", "number_sequence/easy", "letter_counting/easy", "spell_backward/easy"),
    *("family_relationships/easy", "coin_flip/easy", "simple_equations/easy", "word_sorting/easy"),
)
C = TypeVar("C", bound=LearningConfig)
N = TypeVar("N", bound=NodeConfig)
S = TypeVar("S", bound=Section)


def resolved(config: N, tell: named.Tell, get: Get | None = None, room: Room | None = None) -> N:
    """The configuration with a model that is available, and with the options that suit it.
    UserError, within seconds, where the user names a model that is not available.

    `get`: has the last word on a model that was chosen for a graphics card; without it none is.
    `room`: of a card that is not here.
    """
    name, kept = config.model.name, model_of(config.home.expanduser())
    revision, choice = config.model.revision, None
    if "name" in config.model.model_fields_set:
        named.check_model(config.model, tell, earlier=kept.get("name") == name)
    elif named.is_starter(kept.get("name")) or kept.get("name") in (*named.KNOWN,):
        name = str(kept["name"])
        if name in named.KNOWN:
            named.obtain(name, tell, earlier=True)
    elif by_card.is_pinned(kept.get("name"), kept.get("revision")):
        name, revision = str(kept["name"]), str(kept["revision"])
        named.only_here(name, revision)
    elif get and not kept and (choice := _of_card(config, tell, get, room)):
        name, revision = choice.model.name, choice.model.hub.revision
    else:
        name = _first_model(config, tell)
    config = _filled(config, {"model": {"name": name, "revision": revision}})
    rank = kept.get("lora_rank")
    if kept.get("name") == name and isinstance(rank, int) and 0 <= rank <= MAX_RANK:
        config = _filled(config, {"model": {"lora_rank": rank}})
    if choice is None and by_card.choice_of(name):
        room = room or room_on_card(config)
        is_of_home = by_card.is_pinned(kept.get("name"), kept.get("revision"))
        choice = by_card.choice_of(name, room) if room or is_of_home else None
    return suited(config, choice=choice)


def _of_card(
    config: NodeConfig, tell: named.Tell, get: Get, room: Room | None
) -> ModelForCard | None:
    """The model for the graphics card, if there is one and the model may be used."""
    room = room or room_on_card(config)
    choice = by_card.chosen(room, tell) if room else None
    return choice if room and choice and get(choice, room) else None


def room_on_card(config: NodeConfig) -> Room | None:
    """The room on the device of this configuration, as far as it allows the node to take it. None
    for a CPU.
    """
    found = room_of(config.model.device)
    if found and config.limits.memory:
        found = replace(found, free=min(found.free, config.limits.memory * 1e6))
    return found


def _first_model(config: NodeConfig, tell: named.Tell) -> str:
    there = float(memory.available())
    there = min(there, config.limits.memory * 1e6) if config.limits.memory else there
    if there < NEEDED:
        tell(
            f"not enough memory for {named.OF_HUB} (needs {NEEDED / 1e9:.1f} GB, "
            f"{there / 1e9:.1f} GB is free): training the starter instead, "
            f"{named.described(STARTER)}"
        )
        return STARTER
    try:
        return named.best(tell)
    except UserError as error:
        why = str(error).partition("; give ")[0]
        tell(f"{why}; training the starter instead, {named.described(STARTER)}")
        return STARTER


def model_of(folder: Path) -> Mapping[str, Any]:
    """The options of the model that this home, or this checkpoint, holds; empty where they cannot
    be read.
    """
    try:
        newest = max(
            (*folder.glob(STATE), folder / "state.json"),
            key=lambda path: (path.exists(), path.parent.name),
        )
        found = read_json(newest, STATE_BYTES)["extra"]["model"]
    except (OSError, ValueError, LookupError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}


def newest(folder: Path, remedy: str) -> Path:
    """The newest checkpoint in this folder. UserError, which names the remedy, where there is
    none.
    """
    if not (found := sorted(path.parent for path in folder.expanduser().glob("[0-9]*/state.json"))):
        raise UserError(f"{folder} holds no checkpoint yet: {remedy}")
    return found[-1]


def suited(config: C, base: object = "", choice: ModelForCard | None = None) -> C:
    """The configuration with the options that suit its model or, if given, `base`: the model that a
    checkpoint began from. `choice`: how that model is trained on a card. UserError for an unknown
    task.
    """
    if named.is_starter(base or config.model.name):
        return config
    if choice and (made := _of_a_chat(config, choice)):
        return made
    config, first = with_tasks(config)
    continued = all(kind.continued for kind, _ in by_kind(config))
    if first and not continued and not _in_a_chat(config):
        config = _filled(config, {"environment": {"shots": SHOTS}})
    continued = continued or config.environment.shots > 0
    lora = config.model.lora_rank if "lora_rank" in config.model.model_fields_set else 1
    return _filled(config, of_pretrained(lora=lora > 0, continued=continued))


def _of_a_chat(config: C, choice: ModelForCard) -> C | None:
    """The configuration of a model that answers as in a chat: it thinks in tags and answers in
    tags, and has room for both. None where its user asks for texts to go on with, or for an
    environment. Questions of the user's own keep the form of their answers.
    """
    if config.environment.use and first_tasks(config):
        return None
    options = choice.options()
    if "lora_rank" in config.model.model_fields_set and not config.model.lora_rank:
        options["training"]["learning_rate"] = ALL_WEIGHTS
    config = _with_chat_tasks(_filled(config, options))
    kinds = [kind for kind, _ in by_kind(config)]
    if config.environment.shots or any(kind.continued for kind in kinds):
        return None
    if all(kind.usual for kind in kinds):
        config = _filled(config, {"environment": by_card.ANSWERS})
    return config


def _with_chat_tasks(config: C) -> C:
    """The configuration with tasks for a chat model, where its user brings none."""
    config, is_ours = with_tasks(config)
    if is_ours and not config.environment.choose:
        config = with_environment(config, tasks=chat_tasks())
    return config


def chat_tasks() -> tuple[str, ...]:
    """What a chat model of half a billion parameters or more practises in turn, where it does not
    choose: tasks of reasoning-gym, if it is installed; else those that need no library.
    """
    return CHAT_TASKS if find_spec("reasoning_gym") else ()


def with_tasks(config: C) -> tuple[C, bool]:
    """The configuration with tasks, where the user brings none; and whether they are from here. A
    node chooses among many by what its model can do. What else trains a model (a simulation), and a
    node whose user does not want that, asks a few of them in turn.
    """
    environment = config.environment
    refuses = "choose" in environment.model_fields_set and not environment.choose
    if isinstance(config, NodeConfig) and not refuses:
        if tasks := candidates(config, larger=_in_a_chat(config)):
            config = with_environment(config, tasks=tasks, choose=True)
            sections = {
                "environment": {"at_once": curriculum.AT_ONCE},
                "validation": {"questions": CHOSEN_QUESTIONS},
            }
            return _filled(config, sections), True
    elif first := first_tasks(config):
        config = with_environment(config, tasks=first)
        return _filled(config, {"environment": {"at_once": AT_ONCE}}), True
    return config, False


def _in_a_chat(config: LearningConfig) -> bool:
    """Whether completions have room to think: such a model answers as in a chat, without shots."""
    generation = config.generation
    return (
        "max_completion_length" in generation.model_fields_set
        and generation.max_completion_length >= ROOM
    )


def of_pretrained(*, lora: bool, continued: bool) -> dict[str, dict[str, Any]]:
    """Options that suit a pre-trained model, by section. `continued`: prompts are texts to go on
    with, line by line.
    """
    short = {"max_completion_length": 16, "stop": ("\n",)}
    asked = {"every": 10, "questions": 64} if continued else {}
    return {
        "model": {"lora_rank": 16, "template_arguments": NO_TEMPLATE if continued else ""},
        "generation": short if continued else {"max_completion_length": 64},
        "round": {"questions": 8},
        "validation": asked,
        # The KL penalty keeps entropy for later tasks. Under LoRA its reference is the base; else
        # it would need a copy.
        "training": {"learning_rate": 2e-4, "beta": 0.04}
        if lora
        else {"learning_rate": ALL_WEIGHTS},
    }


def _filled(config: S, values: Mapping[str, Mapping[str, Any]]) -> S:
    """The configuration with these options where the user gave none."""
    changes = {}
    for name, options in values.items():
        section = getattr(config, name, None)
        if isinstance(section, Section):
            missing = {
                key: value for key, value in options.items() if key not in section.model_fields_set
            }
            changes[name] = section.model_copy(update=missing)
    return config.model_copy(update=changes)
