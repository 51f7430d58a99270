"""The questions of a file as a source (`scoring/contract.py`). Runs in the scoring process only."""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from swarm_node.environments.dataset import nothing_else, verifiers
from swarm_node.environments.scored import FORMS
from swarm_node.environments.split import place
from swarm_node.scoring.bound import bound_of, plain

SOURCE = "swarm_node.environments.dataset.source:DatasetSource"
WHOLE_ANSWERS = ("json",)  # verifiers to which each answer is one value, whatever it is


class Judge:
    """The verifier of a file, and what else it is told of a completion: `nothing_else.py`."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        """`spec`: what `compile.py` wrote down."""
        self._name = spec["name"]
        self._verify = verifiers.load({**spec, "form": ""})
        self.references = partial(references_of, spec)
        self.answers = partial(references_of, {**spec, "form": ""})

    def score(self, text: str, reference: Any) -> float:
        return self._verify(text, reference)

    def longest(self, reference: Any, prompt: str) -> int | None:
        """The most characters of a paid completion. A function of the user's says it by its
        attribute `longest`; else it is bounded if it takes its own reference answers for right.
        """
        if self._name in nothing_else.BY_NAME:
            return nothing_else.longest(self._name, reference, prompt)
        declared: int | None = getattr(self._verify, "longest", None)
        if declared is not None:
            return declared
        return bound_of(verifiers.text_of(reference), lambda text: self.score(text, reference))

    def accounts(self, text: str, reference: Any, prompt: str) -> bool:
        """Whether an answer says nothing else. Of words a function of the user's judges itself, but
        where it pays its reference answers, a text has no odd signs.
        """
        if says_nothing_else := nothing_else.BY_NAME.get(self._name):
            return says_nothing_else(text, reference, prompt)
        has_bound_of_its_own = getattr(self._verify, "longest", None) is not None
        if has_bound_of_its_own or plain(text, verifiers.text_of(reference), prompt):
            return True
        return self.longest(reference, prompt) is None


def references_of(spec: Mapping[str, Any], answer: Any) -> tuple[Any, ...]:
    """The reference answers of an answer of the file, as they are compared: any of them is
    right.
    """
    whole = spec["name"] in WHOLE_ANSWERS
    references = (answer,) if whole else verifiers.alternatives(answer)
    form = spec.get("form")
    if not form:
        return references
    # The rows of such a file hold whole solutions, which shots show
    return tuple(FORMS[form].read(solution).strip() for solution in references)


class FileItem:
    """One question of the file, scored by the verifier."""

    def __init__(self, prompt: str, answer: Any, judge: Judge) -> None:
        self.prompt, self._judge = prompt, judge
        self.answer = verifiers.text_of(judge.answers(answer)[0])  # a shot shows one
        self._references = judge.references(answer)

    def score(self, text: str) -> float:
        return max(self._judge.score(text, reference) for reference in self._references)

    @property
    def longest(self) -> int | None:
        """See `contract.Item`."""
        bounds = [self._judge.longest(one, self.prompt) for one in self._references]
        known = [bound for bound in bounds if bound is not None]
        return max(known) if len(known) == len(bounds) else None

    def accounts(self, text: str) -> bool:
        """See `contract.Item`."""
        return any(self._judge.accounts(text, one, self.prompt) for one in self._references)


class DatasetSource:
    """The questions of a file that `compile.py` wrote."""

    def __init__(self, file: str) -> None:
        written = json.loads(Path(file).read_bytes())
        self.version: str = written["version"]
        self._rows: dict[str, list[tuple[str, Any]]] = written["rows"]
        self._judge = Judge(written["verifier"])

    def build(self, dataset: str, config_id: str, seed: int, index: int) -> FileItem:
        """The question at an address. Raises KeyError for an unknown side, ZeroDivisionError for
        one without questions.
        """
        rows = self._rows[config_id]
        return FileItem(*rows[place(config_id, seed, index, len(rows))], self._judge)
