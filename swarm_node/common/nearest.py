"""The name that was probably meant by a wrong one: of an option, a command, a model or a column.

A name may have sections, as --training.learning-rate has. Then people do not only mistype: they
forget the section, take the one where the option once stood, or write a part of its last word. Each
of these mistakes has a function below, and `_likely` asks them from the surest to the vaguest.
"""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

# Least similarity by difflib, from 0 to 1: of whole names
SURE, CLOSE, CLOSE_IF_SHORT = 0.85, 0.7, 0.66
NEARLY, ALIKE = 0.8, 0.5  # of parts alone, and of the last parts of close names
SHORT, BEGUN = 3, 4  # letters: of a short name, and of the beginning that two names share


def meant(name: str, names: Iterable[str]) -> str:
    """The one of `names` that was probably meant, the first of several; "" where none is near."""
    return next(_likely(name, list(names)), "")


def _likely(name: str, names: Sequence[str]) -> Iterator[str]:
    """Names that may be meant, the likeliest first."""
    yield from difflib.get_close_matches(name, names, n=1, cutoff=SURE)
    yield from _elsewhere(name, names)
    yield from _same_last_part(name, names)
    yield from _with_more_words(name, names)
    yield from _spelt_nearly_so(name, names)
    if "." not in name:
        by_last_part = {_last_part(known): known for known in reversed(names)}
        yield from _near_or_begun(_last_part(name), _sections(names))
        yield from _near_or_begun(_last_part(name), by_last_part)


def _elsewhere(name: str, names: Sequence[str]) -> Iterator[str]:
    """Names that say the same in another section, as where an option moved:
    --environment.dataset.file is --dataset.file, training.loss_type is loss.type.
    """
    old = re.sub(r"[-.]", "_", name.lstrip("-"))
    for known in names:
        new = re.sub(r"[-.]", "_", known.lstrip("-"))
        got_a_section = "." in name and new.endswith(f"_{old}")
        if old == new or old.endswith(f"_{new}") or got_a_section:
            yield known


def _same_last_part(name: str, names: Sequence[str]) -> Iterator[str]:
    """Names with the right last part in another section, or in none; the first option of a section
    whose name stands alone: --learning-rate, --model.
    """
    last, has_section, sections = _last_part(name), "." in name, _sections(names)
    same = [known for known in names if _last_part(known) == last]
    if not has_section and last in sections:
        yield sections[last]
    places = {known.split(".")[0] for known in same}
    if not has_section or len(places) == 1:
        yield from same
    if last in sections:
        yield sections[last]


def _with_more_words(name: str, names: Sequence[str]) -> Iterator[str]:
    """Names whose last part has the words of this one's, and more: --rounds is --max-rounds."""
    section, dot, _ = name.partition(".")
    words = _words(_last_part(name))
    for known in names:
        in_place = not dot or known.split(".")[0] == section
        if in_place and words < _words(_last_part(known)):
            yield known


def _spelt_nearly_so(name: str, names: Sequence[str]) -> Iterator[str]:
    """Names that are near as a whole, and whose last parts are not quite different."""
    cutoff = CLOSE if len(name) > SHORT else CLOSE_IF_SHORT
    last = _last_part(name)
    for known in difflib.get_close_matches(name, names, n=5, cutoff=cutoff):
        if difflib.SequenceMatcher(None, last, _last_part(known)).ratio() >= ALIKE:
            yield known


def _near_or_begun(part: str, whole: Mapping[str, str]) -> Iterator[str]:
    """Yields the names that have a part which is spelt nearly like this one, or begins like it.
    `whole` has the names by that part.
    """
    for known in difflib.get_close_matches(part, whole, n=1, cutoff=NEARLY):
        yield whole[known]
    for known in whole:
        is_long = min(len(known), len(part)) >= BEGUN
        if is_long and (known.startswith(part) or part.startswith(known)):
            yield whole[known]


def _sections(names: Sequence[str]) -> dict[str, str]:
    """Sections, and the first name of each."""
    with_section = [known for known in reversed(names) if "." in known]
    return {known.lstrip("-").split(".")[0]: known for known in with_section}


def _last_part(name: str) -> str:
    """The last part of a name, without `no-`: mdns of --network.no-mdns."""
    return name.lstrip("-").rsplit(".", 1)[-1].removeprefix("no-")


def _words(part: str) -> set[str]:
    return set(re.split("[-_]", part))
