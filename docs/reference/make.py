"""The pages here that are made from the code: `python docs/reference/make.py` writes them.

Commands are the entries of their table. Options are the fields of the configurations with their
docstrings; events and reports are the fields of the dataclasses with the comments behind them.
tests/house/test_reference.py compares what is committed with what this makes.
"""

import ast
import inspect
import io
import re
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import ModuleType, NoneType
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from swarm_node.commands.table import COMMANDS as ENTRIES
from swarm_node.common.command import Purpose
from swarm_node.node.defaults import suited
from swarm_node.policy.named import OF_HUB
from swarm_node.rollouts.groups import METRICS, Overlap, RoundReport, StepReport
from swarm_node.settings import (
    BootstrapConfig,
    EvaluationConfig,
    NodeConfig,
    StatusConfig,
)
from swarm_node.settings.page import PageConfig
from swarm_node.settings.secret import Secret
from swarm_node.settings.sections import PlugIn
from swarm_node.settings.simulation import SimulationConfig
from swarm_node.simulation.plot_command import PlotConfig
from swarm_node.simulation.report import (
    ArmCost,
    ArmSummary,
    AttackSummary,
    HeldOut,
    Report,
)
from swarm_node.telemetry import events, simulated

HERE = Path(__file__).parent
COMMANDS: Mapping[str, type[BaseModel]] = {
    "run": NodeConfig,
    "simulate": SimulationConfig,
    "model eval": EvaluationConfig,
    "bootstrap": BootstrapConfig,
    "status": StatusConfig,
    "page": PageConfig,
    "view plot": PlotConfig,
}
UNITS = (
    "Seconds",
    "Megabytes",
    "Kilobytes per second",
    "Tokens",
    "Rounds",
    "Updates",
    "Groups",
    "Completions",
)
BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}

OPTIONS = """# Every option

This page lists every option of a node or an experiment. `make reference` makes this page from
the code.

An option has one name and four places. `training.learning_rate` is

- a key of a TOML file: `learning_rate = 1e-4` under `[training]`;
- an environment variable: `SWARM_NODE_TRAINING__LEARNING_RATE=1e-4`;
- a flag: `--training.learning-rate 1e-4`;
- or its default. Flags go before variables, variables before the file, the file before the default.

`model eval`, `bootstrap`, `status` and `peers` take flags and variables, no file. `home id` takes
what `run` takes, and uses `home` alone. A list takes several values after one flag:
`--environment.tasks gcd/easy lcm/easy`. What is true or false is a flag without a value:
`--network.mdns`, and `--network.no-mdns` for false. A path that begins with `~` is below your home
folder.

A `run` that is given no model and no tasks trains smollm2-135m, or a larger model on a [graphics
card](../results/first_model.md), and sets more options to suit it. This page has the values for
smollm2-135m. Where that differs from the default of the option, the page has both: the first value
holds for the starters, and the one after "plain `run`" for such a run. `swarm-node check` prints
what your own options come to.

In the last column `run` stands for `run`, `check` and `doctor`, and `status` for `status` and
`peers`.

Some flags have a short form: `--peers` is `--network.peers`, and may be repeated; `--json` is
`--json-output`; for `simulate`, `--attack` is `--attack.kind`, and `--defence` is
`--defence.layers`.
"""

COMMANDS_PAGE = """# Every command

This page lists every command. `make reference` makes it from the code.

`swarm-node COMMAND --help` shows the most used options of a command, and `--help-all` all of them.
A command without a name is `run`: `swarm-node --max-rounds 20` trains.

A flag overrides an environment variable (`SWARM_NODE_SEED=1`), a variable overrides the
configuration file, and the file overrides the default ([every option](options.md)). How each
command ends is in [exit codes](exit_codes.md).
"""

EVENTS = """# events.jsonl: every event

This page lists what a line of events.jsonl holds, for a program of yours that reads it. `make
reference` makes this page from the code.

The file lies in the home of a node and in the report folder of a simulation. Each line is one JSON
object. The file only grows, so you can read it while it is written. A kill or a full disk may leave
a broken line: skip it. Two keys are in every object: `time`, in seconds since 1970, and `event`,
the name of the event. The other keys depend on the event. A number that is not finite is `null`.
Later versions may add keys and events: skip what you do not know.

A node writes RunStarted, RoundDone, CheckpointSaved, Validated, Notice, Warned and RunFinished; and
Chosen, if it chooses its tasks. A
simulation writes RunStarted, CellStarted, CellRound, CellFinished, CellFailed, Notice, Warned and
RunFinished.
"""

REPORT = """# report.json: the result of a simulation

This page lists what report.json holds, for a program of yours that compares experiments.
`make reference` makes this page from the code.

`swarm-node simulate` writes it into the folder that `--out` names, when all arms and seeds are
done. Two runs with the same configuration on the same machine differ in `cost` alone. A list "per
seed" has the order of `seeds`; "per seed, per round" is a list of lists. The *last rounds* are the
last ten.
"""


class Option(NamedTuple):
    """A row of the page of options, except for what differs between commands."""

    key: str
    kind: str
    meaning: str


def commands_page() -> str:
    """The commands, by what a user wants to do."""
    parts = [COMMANDS_PAGE]
    for purpose in Purpose:
        listed = [(name, entry) for name, entry in ENTRIES.items() if entry.purpose is purpose]
        rows = [
            row(f"`swarm-node {f'{name} {entry.arguments}'.strip()}`", entry.summary)
            for name, entry in listed
        ]
        title = f"{purpose.value[:1].upper()}{purpose.value[1:]}"
        parts.append(f"## {title}\n\n{table('command', 'what it does')}{''.join(rows)}")
    return "\n".join(parts)


def options_page() -> str:
    found: dict[Option, dict[str, str]] = {}
    for command, kind in COMMANDS.items():
        for option, default in options(kind()):
            found.setdefault(option, {})[command] = default
    set_by_run = {option.key: value for option, value in options(plain_run())}
    sections: dict[str, list[str]] = {}
    for option, defaults in found.items():
        section, _, name = option.key.rpartition(".")
        sections.setdefault(section, []).append(
            row(
                f"`{name}`",
                f"`{flag(option.key)}`",
                option.kind,
                _default(defaults, set_by_run[option.key] if "run" in defaults else ""),
                option.meaning,
                ", ".join(defaults),
            )
        )
    head = table("key", "flag", "value", "default", "meaning", "commands")
    parts = []
    for section in sorted(sections, key=bool):  # those without a section first
        title = f"[{section}]" if section else "Above all sections"
        parts.append(f"## {title}\n\n{head}{''.join(sections[section])}")
    return "\n".join([OPTIONS, *parts])


def plain_run() -> NodeConfig:
    """The configuration of a `run` that is given nothing, where memory suffices for the model."""
    config = NodeConfig()
    named = config.model.model_copy(update={"name": OF_HUB})
    return suited(config.model_copy(update={"model": named}))


def options(config: BaseModel, prefix: str = "") -> Iterator[tuple[Option, str]]:
    """Every option of a configuration with the text of its default."""
    for name, about in type(config).model_fields.items():
        value = getattr(config, name)
        if isinstance(value, BaseModel):
            yield from options(value, f"{prefix}{name}.")
        else:
            meaning = " ".join((about.description or "").split())
            unit = next((f" {unit.lower()}" for unit in UNITS if meaning.startswith(unit)), "")
            yield Option(f"{prefix}{name}", _value(about), meaning), _shown(value, unit)


def flag(key: str) -> str:
    return f"--{key.replace('_', '-')}"


def _default(defaults: Mapping[str, str], set_by_run: str) -> str:
    """The one default, or the first command's and those that differ from it: of a plain `run`, and
    of other commands.
    """
    first, *_ = defaults.values()
    others: dict[str, list[str]] = {}
    for command, default in defaults.items():
        if default != first:
            others.setdefault(default, []).append(command)
    told = [f"{', '.join(commands)}: {default}" for default, commands in others.items()]
    if set_by_run not in ("", first):
        told.insert(0, f"plain `run`: {set_by_run}")
    return "; ".join([first, *told])


def _shown(value: Any, unit: str) -> str:
    if value is None or value in ((), "") or (isinstance(value, Secret) and not value):
        return "none"
    if isinstance(value, tuple):
        return " ".join(f"`{_escaped(str(each))}`" for each in value)
    return f"`{str(value).lower() if isinstance(value, bool) else value}`{unit}"


def _escaped(text: str) -> str:
    """The text as one would type it: a line break as backslash and n."""
    return text.replace("\n", "\\n")


def _value(about: FieldInfo) -> str:
    """What may be written there, in words."""
    inner = [
        mark for each in get_args(about.annotation) for mark in getattr(each, "__metadata__", ())
    ]
    if any(isinstance(mark, PlugIn) for mark in [*about.metadata, *inner]):
        return "a name, or FILE:NAME" if about.annotation is str else "list of names, or FILE:NAME"
    if get_origin(about.annotation) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(about.annotation))
    limits = [
        f"{word} {value:g}"
        for mark in about.metadata
        for sign, word in BOUNDS.items()
        if (value := getattr(mark, sign, None)) is not None
    ]
    return ", ".join([_words(about.annotation).removesuffix(" or null"), *limits])


def events_page() -> str:
    parts = [described(kind, "##") for kind in (*_written(events), *_written(simulated))]
    nested = [described(kind, "###") for kind in (RoundReport, StepReport, Overlap)]
    figures = [
        row(f"`{name}`", about.unit or "-", about.meaning, about.over)
        for name, about in METRICS.items()
    ]
    explained = (
        "## Figures\n\nThese figures are in a RoundDone, and in the `metrics` of a CellRound and "
        "of report.json.\n"
        "The last column says how those of the nodes that have a figure become one.\n\n"
    )
    inside = (
        "## Inside a RoundDone\n\n`report` is a RoundReport, which holds a StepReport and "
        "perhaps an Overlap.\n"
    )
    return "\n".join(
        [
            EVENTS,
            *parts,
            inside,
            *nested,
            explained + table("figure", "unit", "meaning", "of several nodes") + "".join(figures),
        ]
    )


def _written(module: ModuleType) -> list[type[events.Event]]:
    """The events of this module that events.jsonl has."""
    kinds = [
        each
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, events.Event)
    ]
    return [
        each
        for each in kinds
        if each.written and each.__module__ == module.__name__ and each is not events.Event
    ]


def report_page() -> str:
    return "\n".join(
        [
            REPORT,
            *(
                described(kind, "##")
                for kind in (Report, ArmSummary, HeldOut, AttackSummary, ArmCost)
            ),
        ]
    )


def described(kind: type, level: str) -> str:
    """A heading, what the dataclass is, and a row for each of its fields."""
    hints, texts = get_type_hints(kind), comments(kind)
    rows = [
        row(f"`{each.name}`", _words(hints[each.name]), texts[each.name]) for each in fields(kind)
    ]
    about = f"{inspect.cleandoc(kind.__doc__ or '')}\n\n"
    return f"{level} {kind.__name__}\n\n{about}{table('key', 'value', 'meaning')}{''.join(rows)}"


def comments(kind: type) -> dict[str, str]:
    """What the source says of each field: of a metric its unit and meaning, else the comment on its
    line, or the one above it.
    """
    source = inspect.cleandoc("\n" + inspect.getsource(kind))
    lines = source.splitlines()
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    behind = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokens
        if token.type == tokenize.COMMENT
    }
    (tree,) = ast.parse(source).body
    assert isinstance(tree, ast.ClassDef)
    said = {
        node.target.id: behind.get(node.end_lineno or 0) or above(lines, node.lineno)
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    texts = {
        name: re.sub(r"\bNone\b", "null", text[:1].upper() + text[1:])
        for name, text in said.items()
    }
    for name in texts.keys() & METRICS.keys() if kind in (RoundReport, StepReport) else ():
        about = METRICS[name]
        texts[name] = about.meaning + (
            f" ({about.unit})" if about.unit and about.unit not in about.meaning else ""
        )
    return texts


def above(lines: list[str], line: int) -> str:
    """The comment that stands directly above this line, which is counted from 1."""
    found: list[str] = []
    while line > 1 and lines[line - 2].lstrip().startswith("#"):
        line -= 1
        found.insert(0, lines[line - 1].strip().lstrip("# "))
    return " ".join(found)


def _words(hint: Any) -> str:
    """A type as it is in JSON."""
    if isinstance(hint, type) and issubclass(hint, Secret):
        hint = str
    simple = {
        int: "integer",
        float: "number",
        str: "text",
        bool: "true or false",
        NoneType: "null",
        Path: "path",
    }
    if hint in simple or is_dataclass(hint):
        return simple.get(hint) or hint.__name__
    origin, inner = get_origin(hint), get_args(hint)
    if origin is tuple:
        one_kind = inner[-1] is Ellipsis
        return (
            f"list of {_words(inner[0])}"
            if one_kind
            else " and ".join(_words(each) for each in inner)
        )
    if origin is Literal:
        return " or ".join(f"`{each}`" for each in inner)
    if origin is not None and issubclass(origin, Mapping):
        return f"object of {_words(inner[1])}"
    if inner:  # a union, or a type with marks
        return " or ".join(_words(each) for each in (inner[:1] if origin is Annotated else inner))
    return _words(hint.__supertype__)  # a NewType, such as PeerId


def table(*columns: str) -> str:
    return row(*columns) + "|" + "---|" * len(columns) + "\n"


def row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def pages() -> dict[Path, str]:
    """Every page that is made, with its text."""
    return {
        HERE / "commands.md": commands_page(),
        HERE / "options.md": options_page(),
        HERE / "events.md": events_page(),
        HERE / "report.md": report_page(),
    }


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
