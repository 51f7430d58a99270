"""`swarm-node check`: what a configuration means on this machine, before anything runs."""

import re
import shutil
import textwrap
from contextlib import closing
from typing import TYPE_CHECKING, Any

from swarm_node.common import plugins
from swarm_node.common.card_memory import GIB, MIB, Room
from swarm_node.common.command import Command
from swarm_node.home.asks import going_on
from swarm_node.node.defaults import resolved, room_on_card
from swarm_node.policy.by_card import is_awaited, looking
from swarm_node.policy.named import say
from swarm_node.scoring import sandbox
from swarm_node.settings import CheckConfig, NodeConfig
from swarm_node.settings.command_line import from_command_line, sources_of
from swarm_node.settings.options import describe, flatten
from swarm_node.settings.plugged import empty_sections
from swarm_node.settings.programs import SIZE
from swarm_node.settings.sources import origins
from swarm_node.swarm.joining import follow_card

if TYPE_CHECKING:
    from swarm_node.policy.plan import Plan

SENTENCE_END = re.compile(r"(?<!e\.g)(?<!i\.e)(?<=\.)\s+(?=[A-Z0-9])")

PAGE = """\
usage: swarm-node check [CONFIG.toml] [--flags] [--all]

Shows what run would do with the same file, environment and flags: the options
that differ from their defaults, where each of them comes from and what it
means, and whether the model fits on this machine. Nothing is trained.

  --all                          show every option
  --memory 8GB                   plan for a GPU of this size instead
  --model.name NAME              smollm2-135m, a starter, folder or hub name
  --environment.tasks TASK ...   tasks to train on, such as gcd/easy,lcm/easy
  --asynchronous.enabled         generate and train at the same time"""


def command(argv: list[str]) -> None:
    """Resolve a configuration as `run` would, explain it, and find what would go wrong."""
    given, lines = from_command_line(CheckConfig, argv, "swarm-node check"), list[str]()
    lines += plugins.gone()
    known = going_on(given, given.home.expanduser(), lines.append)
    changed = follow_card(known, lines.append)
    size = _bytes(changed.memory)
    card = Room(f"a card of {changed.memory}", size, size, bfloat16=True) if size else None
    config = resolved(changed, say, looking(say), card)
    file, sources = sources_of(CheckConfig, argv, "swarm-node check")
    usual = NodeConfig.model_validate(empty_sections(NodeConfig))
    configs = (config, usual, given, known, changed)
    dumped = [one.model_dump(mode="json", exclude={"all", "memory"}) for one in configs]
    values, defaults, typed, before, after = map(flatten, dumped)
    origin, texts = origins(sources), describe(NodeConfig)
    origin |= {key: "this home" for key in before if before[key] != typed[key]}
    origin |= {key: "changed: see below" for key in after if after[key] != before[key]}
    shown = [key for key in values if config.all or values[key] != defaults[key]]
    print(f"{file or 'defaults'}, as swarm-node run sees it:")
    print(
        f"{len(shown)} options"
        if config.all
        else f"{len(shown)} of {len(values)} options differ from their defaults"
    )
    for key in shown:
        print()
        where = origin.get(key, "default" if values[key] == defaults[key] else "suits the model")
        print(_wrapped(f"{key} = {_show(values[key])}  ({where})", ""))
        print(_wrapped(SENTENCE_END.split(texts[key])[0], "    "))
    if not config.all:
        print("\nevery option: --all")
    print("", *lines, sep="\n")
    print("\n".join(examine(config, config.memory)))


def examine(config: NodeConfig, card: str = "") -> list[str]:
    """What this configuration means on this machine, or on a card of this size. Raises UserError if
    a node could not start.
    """
    from swarm_node.environments.registry import build_environment, tasks_of
    from swarm_node.generation.generator import BatchGenerator  # now, not above: it loads torch
    from swarm_node.node.learner import build_trainer
    from swarm_node.policy.loading import configured_policy
    from swarm_node.policy.memory_plan import plan_for, plan_here

    with closing(build_environment(config)) as environment:
        turns = environment.catalogue.most_turns
        notes = [f"{'warning: ' * warning}{text}" for warning, text in environment.notes]
    if card:
        return [*notes, *_planned(plan_for(config, card, turns), config)]
    awaited = is_awaited(config.model.name, config.model.revision)
    if room := room_on_card(config) if awaited else None:
        of_card = config if room.bfloat16 else with_dtype(config, "float32")
        return [
            f"model: {config.model.name} is not downloaded yet: swarm-node run downloads it",
            f"tasks: {', '.join(tasks_of(config))}",
            *notes,
            *_planned(plan_for(of_card, f"{room.free / MIB:.0f}MB", turns), config),
        ]
    policy = configured_policy(config)
    plan = plan_here(config, policy, config.limits, turns)
    generator = BatchGenerator(policy, config.generation)
    trainer = build_trainer(config, policy)
    total = sum(p.numel() for p in policy.model.parameters())
    trained = sum(p.numel() for p in policy.model.parameters() if p.requires_grad)
    tasks = tasks_of(config)
    rows = (
        trainer.packing.value if trainer.packing else "padded (this model cannot take packed ones)"
    )
    template = "yes" if policy.tokenizer.chat_template else "no"
    memory = ["memory: not known for this device or model"]
    if plan:
        memory = _planned(plan, config)
    return [
        (
            f"model: {config.model.name}, {total:,} parameters, {trained:,} of them trained, on "
            f"{policy.device}"
        ),
        f"linear layers: {policy.arithmetic}",
        f"decoder: {generator.decoder_name}; training rows: {rows}",
        f"context: {policy.context_length} tokens; chat template: {template}",
        f"tasks: {', '.join(tasks)}",
        *notes,
        sandbox.describe(sandbox.layers()),
        *memory,
    ]


def with_dtype(config: NodeConfig, dtype: str) -> NodeConfig:
    """The configuration with another type of the weights."""
    model = config.model.model_copy(update={"dtype": dtype})
    return config.model_copy(update={"model": model})


def _bytes(size: str) -> float:
    """Bytes of a size that an option has, such as 8GB; 0 for none."""
    match = SIZE.match(size)
    if match is None:
        return 0.0
    unit = GIB if match[2].upper() == "G" else MIB
    return float(match[1]) * unit


def _planned(plan: "Plan", config: NodeConfig) -> list[str]:
    return [*plan.lines(), plan.of_checkpoints(config.checkpoint.minutes)]


def _wrapped(text: str, indent: str) -> str:
    """The text wrapped to the terminal's width; a word longer than a line stays whole, so that it
    can be copied.
    """
    columns = shutil.get_terminal_size().columns
    whole = textwrap.TextWrapper(columns, break_long_words=False, break_on_hyphens=False)
    whole.initial_indent, whole.subsequent_indent = indent, "    "
    return whole.fill(text)


def _show(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text.replace("\n", "\\n") or '""'


CHECK = Command(CheckConfig, PAGE, command)
