"""What others can plug in: names that packages register, and MODULE:NAME for a file beside the
configuration.

A package registers a name by an entry point in the group `swarm_node.KIND`, where KIND is one of
GROUPS. For example, an entry point in `swarm_node.samplers` names a sampler. The plug-ins that come
with swarm-node are registered in the same way, in pyproject.toml. Only our rules for advantages are
not: they stand in a table in the code. A node imports the code of another package only if its
configuration names one of the package's plug-ins. Sections of options are the exception: they are
imported to know which options there are.

Every other part that a node can be made of stands in a table in the code: `commands/table.py`,
`OBSERVERS` of `commands/run.py`, `LAYERS` of `rollouts/defence.py`, `ADVANTAGES` of
`rollouts/advantages.py`, `BACKENDS` of `network/transport/libraries.py`, `ENGINES` of
`simulation/engines/choice.py`.
"""

import difflib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, TypeVar

from swarm_node.common import loading
from swarm_node.common.errors import UserError

T = TypeVar("T")

OURS = "textswarm"  # the distribution whose plug-ins ship
# Adapters have a group beside that of environments: what stands there is no environment, but makes
# one of another library's object, and is imported in the scoring process alone
GROUPS = (
    "environments",
    "adapters",
    "samplers",
    "objectives",
    "advantages",
    "trackers",
    "settings",
)
# Kind -> methods that its objects need
CALLED = {"samplers": ("observe", "split", "order", "at_once", "choose")}


@cache
def _points() -> Any:  # EntryPoints, which has another name before Python 3.12
    """The entry points of all installed packages: reading them takes a tenth of a second."""
    return entry_points()


@cache
def registered(kind: str) -> dict[str, EntryPoint]:
    """Entry points by name; none of a kind that is not in GROUPS. No other package can take a name
    of ours. Raises UserError if not even an environment of ours is registered: then this checkout
    was never installed, or was installed before it registered any.
    """
    points = _points()
    if not any(map(is_ours, points.select(group="swarm_node.environments"))):
        raise UserError(
            "the installed package has another version than this code: run make install, or "
            "pip install again"
        )
    if kind not in GROUPS:
        return {}
    group = points.select(group=f"swarm_node.{kind}")
    # Ours come last, and so take a name that another package has, too
    ours_last = sorted(group, key=lambda point: (is_ours(point), point.name))
    return {point.name: point for point in ours_last}


def is_ours(point: EntryPoint) -> bool:
    """Whether swarm-node itself registers this entry point."""
    return point.dist is not None and point.dist.name == OURS


def gone() -> list[str]:
    """A line for each name that another package registers in a group which is gone."""
    points = _points()
    lines = list[str]()
    for group in sorted(points.groups):
        room, _, kind = group.partition(".")
        if room != "swarm_node" or kind in GROUPS:
            continue
        for point in points.select(group=group):
            if is_ours(point):  # this version was pulled, and not installed again
                continue
            package = point.dist.name if point.dist else "a package"
            lines.append(
                f"{package} registers {point.name} in {group}, which nothing reads any more: "
                "docs/how-to/plugins.md says what can be plugged in"
            )
    return lines


def target(kind: str, name: str, besides: Sequence[str] = ()) -> str:
    """MODULE:NAME or FILE.py:NAME of a registered name; `name` itself if it has that form.
    UserError otherwise, which lists the registered names and those in `besides`, which the option
    takes too.
    """
    if ":" in name:
        return name
    known = registered(kind)
    if name not in known:
        names = sorted({*known, *besides})
        close = difflib.get_close_matches(name, names, n=1, cutoff=0.0)
        meant = f"did you mean {close[0]!r}? " if close else ""
        raise UserError(
            f"nothing is registered as {name!r} among {kind}: {meant}The names are "
            f"{', '.join(names) or 'none'}; a file of your own is named as FILE:NAME, without .py"
        )
    return known[name].value


def load(kind: str, name: str) -> Any:
    """The registered object, imported into this process. Raises UserError if it cannot be
    loaded.
    """
    place = target(kind, name)
    try:
        return loading.load(place)
    except Exception as error:  # a user's file may raise anything
        raise UserError(
            f"{kind}: {name} cannot be loaded: {type(error).__name__}: {error}"
        ) from error


def chosen(kind: str, name: str, table: Mapping[str, T]) -> T:
    """What the table holds under this name, else what a file of the user's holds: FILE:NAME."""
    if name in table:
        return table[name]
    brought: T = load(kind, name)
    return brought


def made(kind: str, name: str) -> Any:
    """An object of the registered class. Raises UserError where the class lacks a method in CALLED
    or an abstract one.
    """
    found = load(kind, name)
    missing = [each for each in CALLED[kind] if not hasattr(found, each)]
    if missing := [*missing, *sorted(getattr(found, "__abstractmethods__", ()))]:
        raise UserError(
            f"{kind}: {name} lacks {', '.join(missing)}: write it; docs/how-to/plugins.md says "
            "what to inherit from"
        )
    return found()


def located(name: str, folder: Path) -> str:
    """MODULE:NAME, also after ADAPTER:, with the path of MODULE's file if `folder` has it; other
    names unchanged.
    """
    module, colon, attribute = name.partition(":")
    if ":" in attribute:
        return f"{module}:{located(attribute, folder)}"
    file = folder / (module.removesuffix(".py").replace(".", "/") + ".py")
    return f"{file.resolve()}:{attribute}" if colon and file.is_file() else name
