"""What a wrong option is called, in one line: its name as the user wrote it, what is wrong, and what was meant."""

import difflib
import re
from collections.abc import Iterable
from typing import Any

from swarm_node.common.errors import printable

CLOSE, NEARLY = 0.7, 0.8  # of difflib, from 0 to 1
SHOWN = 60  # characters of a wrong value


def meant(name: str, names: Iterable[str]) -> str:
    """The one of `names` that was probably meant, the first of several; "" where none is near.

    An option that moved is meant first: --environment.dataset.file is --dataset.file. Then the right name in the wrong
    section: --learning-rate is --training.learning-rate. Then a section that is spelt nearly so: --modell is
    --model.name.
    """
    names = list(names)
    if moved := next((each for each in names if _moved(name, each)), ""):
        return moved
    endings = {_last(each): each for each in reversed(names)}
    sections = {each.split(".")[0]: each for each in reversed(names) if "." in each}
    for text, among, cutoff in (
        (_last(name), endings, 1.0),
        (_last(name), {each.lstrip("-"): sections[each] for each in sections}, 1.0),
        (name.split(".")[0] if "." not in name else "", sections, NEARLY),
        (name, {each: each for each in names}, CLOSE),
        (_last(name), endings, NEARLY),
    ):
        if found := difflib.get_close_matches(text, among, n=1, cutoff=cutoff):
            return among[found[0]]
    return ""


def wrong(problem: Any, secret: bool = False) -> str:
    """What pydantic found in a value, for a person: what it should be, and, unless it is secret, what it is."""
    said = re.sub(r"^(Input|String|Value error,|Tuple|List) *", "", str(problem["msg"])).removesuffix(".")
    said = re.sub(r"^should be", "must be", said)
    said = re.sub(r"valid dictionary or instance of \w+", "section, with keys of its own", said)
    said = re.sub(r"is not a valid path.*", "must be a path", said)
    said = re.sub(r", unable to parse.*| with a fractional part", "", said)
    if problem["type"] == "missing":
        said = "must have more entries"
    return said if secret else f"{said}, not {printable(repr(problem['input']), SHOWN)}"


def _moved(old: str, new: str) -> bool:
    """Whether `new` says the same in another section: training.loss_type in loss.type."""
    one, other = (re.sub(r"[-.]", "_", name.lstrip("-")) for name in (old, new))
    return one == other or one.endswith(f"_{other}") or ("." in old and other.endswith(f"_{one}"))


def _last(name: str) -> str:
    """Of --network.no-mdns: mdns."""
    return name.lstrip("-").rsplit(".", 1)[-1].removeprefix("no-")
