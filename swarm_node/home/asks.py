"""What a home asks is part of it, as its model is: `run` notes it, and later starts continue with
it.

A home keeps it in `asks.toml`, as options that the user gave. Options that can do no harm (tasks,
shots, the form of an answer, ...) are taken from there, by the rules of `settings/of_home.py`. Of a
file, a plug-in or a task set that file has only the name, to be shown: its value comes from the
record of this user, outside of the home (`homes.py`). Where that has none, one line says what to
name, since to ask something else would train the checkpoint on other questions without a word.

What the user gives at this start is stronger, and where it differs, a line says so.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from swarm_node.common.errors import UserError, printable
from swarm_node.common.files import plain, write_bytes
from swarm_node.common.redaction import HIDDEN
from swarm_node.home.folder import KEY_FILE, load_identity
from swarm_node.home.record import NotedOption, Trouble, files_in, note, noted
from swarm_node.settings import NodeConfig, WithQuestions, of_home
from swarm_node.settings.files import read_options
from swarm_node.settings.mistakes import wrong
from swarm_node.settings.options import Option, flatten, options
from swarm_node.settings.plugged import plugged_sections
from swarm_node.settings.questions import QUESTION_SECTIONS
from swarm_node.settings.secret import Secret

ASKS_FILE = "asks.toml"
HEAD = "# What this home was trained on. swarm-node run wrote this, and continues with it\n"
TASKS, USE = "environment.tasks", "environment.use"
# Beside the sections of questions: how a prompt is framed, and where a completion ends
FRAMING = ("model.template_arguments", "generation.max_completion_length", "generation.stop")
NOT_ASKED = "environment.time_limit"
SOURCES = ("a file or folder", "a program")  # what an option grants that brings questions
SHOWN, LONG = 80, 1000  # characters of a value, and of one that is to be copied whole
NAMED = 6  # options that a line names

C = TypeVar("C", bound=BaseModel)
Tell = Callable[[str], None]


@dataclass(slots=True)
class AskedOptions:
    """What a home asked so far, by the keys of `run`."""

    there: bool = False  # whether the home says anything
    values: dict[str, Any] = field(default_factory=dict)  # to continue with
    shown: dict[str, Any] = field(default_factory=dict)  # everything, as the home shows it
    named: Mapping[str, NotedOption] = field(
        default_factory=dict
    )  # by this user, outside of the home
    # Keys of what the home may not name and is not known again: what became of a file that this
    # user named, or None where this user named nothing
    unknown: dict[str, Trouble | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Restart:
    """A start of a home that asked something before. Keys are those of `run`, whatever the
    command.
    """

    home: Path
    asked: AskedOptions  # so far
    given: Mapping[str, Any]  # by the user at this start
    dropped: set[str]  # keys of what the home names, and this start replaces
    keys: Mapping[str, str]  # what this command calls the options, by their keys in `run`
    options: Mapping[str, Option]  # those of this command, by its own keys

    @classmethod
    def of(cls, config: BaseModel, home: Path, asked: AskedOptions) -> "Restart":
        """The start of a command with this configuration."""
        keys = _keys(type(config))
        given = _given(config, keys)
        dropped = _replaced(given, asked.shown)
        return cls(home, asked, given, dropped, keys, options(type(config)))

    def option(self, key: str) -> Option:
        """The option of this command that has this key in `run`."""
        return self.options[self.keys[key]]

    def goes_on_with(self) -> dict[str, Any]:
        """What it takes from the home, as the user gives nothing else."""
        return {key: value for key, value in self.asked.values.items() if self._is_left(key)}

    def check_known(self) -> None:
        """UserError where this home asked what only its user may name, and this start names nothing
        in its place. It speaks of the flags of this command.
        """
        missing = [key for key in self.asked.unknown if self._is_left(key)]
        if not missing or _other_tasks(self.given, self.asked.shown):
            return
        for key in missing:
            if trouble := self.asked.unknown[key]:
                remedy = self._remedy(key, trouble)
                raise UserError(f"{printable(str(trouble), LONG)}: {remedy} to continue with it")
        shown = {key: _base_names(self.asked.shown[key]) for key in missing[:NAMED]}
        as_flags = [of_home.as_flag(self.option(key), value) for key, value in shown.items()]
        flags = " ".join(as_flags)
        others = self.option(TASKS).flags[0]
        raise UserError(
            f"{printable(str(self.home))} was trained with {_in_words(shown)}, which only its user "
            f"may name, as a home may be a stranger's: start with {flags}, or name other tasks "
            f"with {others}"
        )

    def otherwise(self) -> str:
        """The line about what it asks otherwise than before; "" where it asks the same."""
        changed = []
        for key, value in self.given.items():
            if before := self._before(key, value):
                changed.append(f"{key} {_text(_shown(key, value))} (before: {before})")
        if not changed:
            return ""
        gone = {key: self.asked.shown[key] for key in sorted(self.dropped)}
        instead = f", in place of {_in_words(gone)}" if gone else ""
        more = f" and {len(changed) - NAMED} more" if len(changed) > NAMED else ""
        named = ", ".join(changed[:NAMED])
        return f"changed by you: {named}{more}{instead}"

    def _is_left(self, key: str) -> bool:
        """Whether this command has the option, and its user gives nothing in its place."""
        return key in self.keys and key not in self.given and key not in self.dropped

    def _remedy(self, key: str, trouble: Trouble) -> str:
        option = self.option(key)
        if trouble.gone:
            return f"say where it is now with {option.flags[0]}"
        return f"give {of_home.as_flag(option, self.asked.named[key].value, LONG)}"

    def _before(self, key: str, value: Any) -> str:
        """What stood in place of this value before; "" where it is the same."""
        if key not in self.asked.shown:
            is_default = plain(value) == plain(self.option(key).about.default)
            return "" if is_default else "the default"
        before = _text(self.asked.shown[key])
        if key not in self.asked.named:
            return "" if _shown(key, value) == self.asked.shown[key] else before
        if plain(value) != self.asked.named[key].value:
            return before
        return "with another content" if self.asked.unknown.get(key) else ""


def going_on(config: C, home: Path, tell: Tell) -> C:
    """The configuration with what this home asked so far, where its user gives nothing else; lines
    tell both. Raises UserError where only the user may name what it asked.
    """
    asked = _asked(home)
    if not asked.there:
        return config
    start = Restart.of(config, home, asked)
    start.check_known()
    if line := start.otherwise():
        tell(line)
    more = start.goes_on_with()
    if not more:
        return config
    shown = {key: _shown(key, value) for key, value in more.items()}
    tell(f"using the options that this home used before: {_in_words(shown)}")
    by_own_key = {start.keys[key]: value for key, value in more.items()}
    return _filled(config, by_own_key, home / ASKS_FILE)


def asked_by(config: BaseModel) -> dict[str, Any]:
    """What the user gave of all that says what is asked, by key."""
    return _given(config, _keys(type(config)))


def is_kept(key: str) -> bool:
    """Whether `keep` notes an option of this key so that a later start of this user finds it."""
    option = _known().get(key)
    return key in _keys(NodeConfig) and not (option and option.is_a(Secret))


def keep(home: Path, values: Mapping[str, Any], tell: Tell) -> None:
    """Notes what this home asks: harmless options in the home, and the others outside of it."""
    known, free = _known(), of_home.may_set(NodeConfig)
    rows = {key: _shown(key, value) for key, value in values.items()}
    rows = {key: value for key, value in rows.items() if value not in ("", None)}
    content = HEAD + "".join(f"{key} = {_toml(value)}\n" for key, value in rows.items())
    write_bytes(home / ASKS_FILE, content.encode(errors="replace"), 0o600)
    kept = {
        key: value
        for key, value in values.items()
        if key in rows and key not in free and not isinstance(value, Secret)
    }
    try:
        note(home, load_identity(home).peer_id, kept)
    except (OSError, ValueError) as error:
        flags = " ".join(of_home.as_flag(known[key], kept[key]) for key in kept)
        why = getattr(error, "strerror", None) or error
        tell(f"this user's record of homes cannot be written ({why}): give next time {flags}")


def _asked(home: Path) -> AskedOptions:
    file = home / ASKS_FILE
    if not os.path.lexists(file):
        return AskedOptions()
    kind, keys = NodeConfig, _keys(NodeConfig)
    stored = flatten(read_options(file, follow=False))
    stored = {key: value for key, value in stored.items() if key in keys}
    sorted_out = of_home.sorted_out(kind, stored)
    shown = {key: _shown(key, value) for key, value in stored.items()}
    found = AskedOptions(True, dict(sorted_out.taken), shown)
    if not sorted_out.refused:
        return found
    found.named = noted(home, _identity(home))
    for key in sorted_out.refused:
        named = found.named.get(key)
        trouble = named.trouble() if named else None
        if named is None or trouble:
            found.unknown[key] = trouble
        else:
            found.values[key] = named.value
    return found


def _identity(home: Path) -> str:
    """The peer id of this home; "" where it has none that can be read."""
    try:
        return load_identity(home).peer_id if (home / KEY_FILE).exists() else ""
    except UserError:
        return ""


def _known() -> Mapping[str, Option]:
    return options(NodeConfig)


def _keys(kind: type[BaseModel]) -> dict[str, str]:
    """The options that say what is asked: their keys in `run`, and in this command, whose section
    `environment` may be its own options.
    """
    plugged = plugged_sections(NodeConfig).items()
    sections = QUESTION_SECTIONS | {name for name, kind in plugged if WithQuestions in kind.serves}
    found, own = {}, options(kind)
    for key in _known():
        is_asked = key.partition(".")[0] in sections and key != NOT_ASKED
        here = key if key in own else key.removeprefix("environment.")
        if here in own and (is_asked or key in FRAMING):
            found[key] = here
    return found


def _given(config: BaseModel, keys: Mapping[str, str]) -> dict[str, Any]:
    """The values that were given, by the keys of `run`; files by their whole paths."""
    found = {}
    for key, here in keys.items():
        *path, name = here.split(".")
        section = reduce(getattr, path, config)
        if name in section.model_fields_set:
            found[key] = _whole(_known()[key], getattr(section, name))
    return found


def _whole(option: Option, value: Any) -> Any:
    """The value; of a file its whole path, as a later start may have another current folder."""
    granted = of_home.granted(option)
    if granted not in SOURCES or not isinstance(value, str | Path) or not str(value):
        return value
    path = Path(os.path.expanduser(value))
    is_file = path.is_file() and (granted == SOURCES[0] or path.suffix == ".py")
    return str(path.absolute()) if is_file else value


def _replaced(given: Mapping[str, Any], shown: Mapping[str, Any]) -> set[str]:
    """What the home names that no longer counts, as this start names another source of questions:
    a data set in place of tasks, tasks in place of a data set, or another data set than a file.
    """
    sources = {key for key, option in _known().items() if of_home.granted(option) in SOURCES}
    sources.add(USE)
    before = {_section(key) for key in sources & shown.keys()}
    new = {_section(key) for key in sources & given.keys() if given[key] not in ("", None)}
    gone: set[str] = set()
    if new - before:
        gone = {TASKS} | {key for key in _granting(shown) if _section(key) in before}
    if _other_tasks(given, shown):
        asked = {task.partition("/")[0] for task in given[TASKS]}
        gone |= {key for key in _granting(shown) if _section(key) not in asked | {"environment"}}
    return (gone & shown.keys()) - given.keys()


def _other_tasks(given: Mapping[str, Any], shown: Mapping[str, Any]) -> bool:
    """Whether this start names tasks that are not those of the home."""
    return bool(given.get(TASKS)) and plain(given[TASKS]) != shown.get(TASKS)


def _section(key: str) -> str:
    return key.partition(".")[0]


def _granting(keys: Mapping[str, Any]) -> set[str]:
    return {key for key in keys if of_home.granted(_known()[key])}


def _filled(config: C, values: Mapping[str, Any], file: Path) -> C:
    """The configuration with these values in addition. Raises UserError for one that is wrong."""
    by_section: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        section, _, name = key.rpartition(".")
        by_section.setdefault(section, {})[name] = value
    changed: dict[str, Any] = {}
    for section, inner in by_section.items():
        part = getattr(config, section) if section else config
        try:
            made = type(part).model_validate(inner, context={"folder": Path()})
        except ValidationError as error:
            (problem, *_) = error.errors(include_url=False)
            name = ".".join(str(each) for each in (section, *problem["loc"][:1]) if each)
            raise UserError(f"{printable(str(file))}: {name}: {wrong(problem)}") from error
        update = {name: getattr(made, name) for name in inner}
        if section:
            changed[section] = part.model_copy(update=update)
        else:
            changed |= update
    return config.model_copy(update=changed)


def _in_words(shown: Mapping[str, Any]) -> str:
    """Options and values, as a home shows them, for a person: on one line."""
    named = [f"{key} {_text(value)}" for key, value in list(shown.items())[:NAMED]]
    more = [f"{len(shown) - NAMED} more"] if len(shown) > NAMED else []
    return ", ".join([*named, *more])


def _text(shown: Any) -> str:
    words = shown if isinstance(shown, list | tuple) else [shown]
    return printable(" ".join(map(str, words)) or "none", SHOWN)


def _shown(key: str, value: Any) -> Any:
    """A value as the home shows it: no secret, and files by their base names."""
    option = _known()[key]
    if option.is_a(Secret):
        return HIDDEN if value else ""
    return _base_names(plain(value)) if of_home.granted(option) else plain(value)


def _base_names(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_base_names(inner) for inner in value]
    if not isinstance(value, str):
        return value
    for path in files_in(value):
        value = value.replace(path, os.path.basename(path))
    return value


def _toml(value: Any) -> str:
    """A text, a number, a switch or a list as TOML: written as JSON, except for one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
