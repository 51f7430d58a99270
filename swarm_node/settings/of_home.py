"""Which options the file `options.toml` of a home may set. A home may be a stranger's.

`swarm-node join` writes that file, so that the next start needs no flags. Whoever unpacks the home
of somebody else starts with the options in it. Two rules keep that harmless, and both must hold:

1. An option is on a list: `from_home` of the section that it stands in.
2. A value of the option gives whoever wrote the home no power over this machine. That holds for a
   number, a switch, a choice, and a text that is marked `Words`. It does not hold for a plug-in, a
   path, a secret, whatever is marked `Grants`, and a text without any mark. So an option that is
   put on a list by mistake is refused all the same.

The node skips a refused option, and prints one line with its name and with the flags that set it
for this start. So a node continues a home that an earlier `join` made, without the options that
only its user may name.
"""

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel

from swarm_node.common.errors import printable
from swarm_node.common.files import check_links, plain
from swarm_node.settings.files import read_options
from swarm_node.settings.mistakes import warn
from swarm_node.settings.options import (
    Option,
    by_present_names,
    flatten,
    negated,
    options,
    sections,
)
from swarm_node.settings.secret import Secret
from swarm_node.settings.sections import Grants, PlugIn, Words
from swarm_node.settings.sources import OptionSource

HOME_FILE = "options.toml"
# An older `join` wrote the addresses of a code as if the user had given them
PEERS = {"network.peers": "network.suggested", "peers": "suggested"}
SHOWN = 3  # refused options that the line names
VALUE = 80  # characters of a value in it


@dataclass(frozen=True, slots=True)
class OfHome:
    """What a home's file says about the options of a command."""

    taken: dict[str, Any] = field(default_factory=dict)  # values by key
    refused: dict[str, Any] = field(default_factory=dict)


def read_home(kind: type[BaseModel], given: Sequence[OptionSource]) -> OptionSource:
    """The options of this command that the home's file may set; none where a command has no home.
    `given` names the home, where the user does.
    """
    if "home" not in kind.model_fields:
        return OptionSource("home")
    home = kind.model_fields["home"].default
    for source in given:
        home = source.values.get("home") or home
    folder = Path(os.path.expanduser(str(home)))
    check_links(folder)
    file = folder / HOME_FILE
    stored = flatten(read_options(file, follow=False)) if os.path.lexists(file) else {}
    kept = by_present_names(kind, stored)
    found = sorted_out(kind, _peers_suggested(kept, given))
    names = {key: f"{file}: {key}" for key in found.taken}
    return OptionSource("home", found.taken, names, file, found.refused)


def warn_of_home(kind: type[BaseModel], given: Sequence[OptionSource]) -> None:
    """Says in one line which options of a home's file are skipped, though nothing stronger sets
    them.
    """
    stronger = {key for source in given if source.kind != "home" for key in source.values}
    for source in given:
        refused = {key: value for key, value in source.refused.items() if key not in stronger}
        if source.file is not None and (line := warning(kind, source.file, refused)):
            warn(line)


def _peers_suggested(kept: Mapping[str, Any], given: Sequence[OptionSource]) -> dict[str, Any]:
    """What a home keeps, with its peers as suggested ones: only its user gives a node addresses
    that it dials wherever they lead. Where the user does so, those of the home are skipped.
    """
    user_names_peers = any(key in source.values for source in given for key in PEERS)
    renamed = {PEERS.get(key, key): value for key, value in kept.items()}
    if user_names_peers:
        return {key: value for key, value in renamed.items() if key not in PEERS.values()}
    return renamed


def may_set(kind: type[BaseModel]) -> Mapping[str, Option]:
    """The options of this configuration that a home may set: they are on a list, and harmless."""
    listed = {*_keys_on_the_list(kind)}
    on_the_list = {key: option for key, option in options(kind).items() if key in listed}
    return {key: option for key, option in on_the_list.items() if not granted(option)}


def sorted_out(kind: type[BaseModel], values: Mapping[str, Any]) -> OfHome:
    """The values of a home's file that this command takes, and those that it refuses. Values of
    other commands' options are in neither.
    """
    allowed, known = may_set(kind), options(kind)
    taken = {key: value for key, value in values.items() if key in allowed}
    not_allowed = known.keys() - allowed.keys()
    refused = {key: value for key, value in values.items() if key in not_allowed}
    return OfHome(taken, refused)


def warning(kind: type[BaseModel], file: Path, refused: Mapping[str, Any]) -> str:
    """The line about options that were refused; "" where there are none."""
    if not refused:
        return ""
    named = list(refused)[:SHOWN]
    more = f" and {len(refused) - SHOWN} more" if len(refused) > SHOWN else ""
    flags = " ".join(as_flag(options(kind)[key], refused[key]) for key in named)
    return (
        f"{printable(str(file))} cannot set {', '.join(named)}{more}, and they are ignored: a "
        f"home may be a stranger's; if they are yours, start with {flags}"
    )


def granted(option: Option) -> str:
    """What this option lets whoever sets it name, such as a file; "" where that is harmless."""
    marks, kinds = {*option.about.metadata}, [*_kinds(option.about.annotation)]
    marks |= {mark for mark in kinds if isinstance(mark, PlugIn | Grants | Words)}
    if any(isinstance(mark, PlugIn) for mark in marks):
        return "code to load"
    by_mark = (mark.what for mark in marks if isinstance(mark, Grants))
    types = tuple(kind for kind in kinds if isinstance(kind, type))
    by_type = (_of_type(kind, Words() in marks) for kind in types)
    return next(by_mark, "") or next(filter(None, by_type), "")


def _of_type(kind: type, is_words: bool) -> str:
    """What a value of this type may name, such as a file; "" where that is harmless."""
    if issubclass(kind, Path):
        return "a file or folder"
    if issubclass(kind, Secret):
        return "a secret"
    if issubclass(kind, str):
        return "" if is_words else "a text of no known use"
    return "" if issubclass(kind, bool | int | float | type(None)) else "a value of no known use"


def as_flag(option: Option, value: Any, most: int = VALUE) -> str:
    """The flag that sets this option so, quoted for a shell; values are cut off after `most`
    characters. A secret's value is skipped.
    """
    flag, kinds = option.flags[0], [*_kinds(option.about.annotation)]
    if any(isinstance(kind, type) and issubclass(kind, Secret) for kind in kinds):
        return f"{flag} ..."
    if option.is_switch:
        return flag if value is True else negated(flag)
    given = value if isinstance(value, list | tuple) else [value]
    words = (shlex.quote(printable(str(plain(each)), most)) for each in given)
    return " ".join([flag, *words])


def _keys_on_the_list(kind: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """The keys on the list of this configuration, and on those of its sections."""
    for name in getattr(kind, "from_home", ()):
        yield prefix + name
    for name, section in sections(kind).items():
        yield from _keys_on_the_list(section, f"{prefix}{name}.")


def _kinds(annotation: Any) -> Iterator[Any]:
    """The types that an annotation is made of, and the marks within it."""
    if get_origin(annotation) is Annotated:
        yield from annotation.__metadata__
    inner = get_args(annotation)
    for each in inner:
        yield from _kinds(each)
    if not inner:
        yield annotation
