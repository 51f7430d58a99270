"""A file to questions, in a process that ends at once: `python -m swarm_node.extensions.dataset.compile`, not for
people. Reads a specification from standard input, writes the questions for scoring processes where it says, and prints
what there is to know of them. So the node never imports a reader of Parquet, and never holds a row.
"""

import hashlib
import json
import os
import resource
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

from swarm_node.common.errors import UserError
from swarm_node.common.regular import open_regular
from swarm_node.extensions.dataset import questions, reading
from swarm_node.extensions.dataset.questions import HELD_OUT, TRAIN, Question
from swarm_node.extensions.dataset.settings import VERIFIERS, DatasetConfig

SHOWN = 3  # prompts
MAX_MEMORY = 1024 * 1024 * 1024  # bytes of this process, whatever a library makes of a file


def main() -> None:
    """Exit code 1, and the mistake as one line, where the file will not do."""
    out = os.dup(1)
    os.dup2(2, 1)  # whatever a library prints
    asked = json.load(sys.stdin)
    try:
        facts = _bounded(DatasetConfig.model_validate(asked["dataset"]), asked["out"])
    except UserError as error:
        sys.stderr.write(f"\n{error}\n")
        sys.exit(1)
    with os.fdopen(out, "w") as stream:
        json.dump(facts, stream)


def _bounded(config: DatasetConfig, out: str) -> dict[str, Any]:
    """In a process that may take no more memory from here on."""
    with suppress(ValueError, OSError):  # a lower limit is set from outside: it holds anyway
        resource.setrlimit(resource.RLIMIT_DATA, (MAX_MEMORY, MAX_MEMORY))
    try:
        return compiled(config, out)
    except MemoryError as error:
        raise UserError(f"reading it takes more than {MAX_MEMORY >> 20} MB of memory: use a part of it") from error


def compiled(config: DatasetConfig, out: str) -> dict[str, Any]:
    """The facts of a data set. Its questions are written to `out`, unless that is empty."""
    columns = (config.prompt, config.answer, config.template)
    made = questions.gather(reading.rows(config.file, questions.columns(*columns)), *columns)
    verifier = _verifier(config)
    sides = questions.with_shots(made.split(config.held_out), config.shots)
    if not sides[TRAIN]:
        raise UserError(f"data set {config.file}: no question is left to train on: give a smaller held_out")
    agreed = {key: value for key, value in verifier.items() if key != "place"}
    version = questions.version(made, config.held_out, agreed | ({"shots": config.shots} if config.shots else {}))
    if out:
        _write(Path(out), {"version": version, "verifier": verifier}, sides)
    return {
        "version": version,
        "rows": questions.version(made, 0.0, {}),
        "verifier": verifier,
        "train": len(sides[TRAIN]),
        "held_out": len(sides[HELD_OUT]),
        "left_out": dict(made.left_out),
        "duplicates": made.duplicates,
        "leaking": questions.leaking(sides),
        "prompt_chars": _lengths([len(each.prompt) for each in made.kept]),
        "answer_chars": _lengths([len(questions.text_of(each.answer)) for each in made.kept]),
        "examples": [[_shown(each.prompt), _shown(questions.text_of(each.answer))] for each in _first(sides[TRAIN])],
    }


def _write(out: Path, about: dict[str, Any], sides: Mapping[str, Sequence[Question]]) -> None:
    """One JSON object, question by question: as one text it would take several times the memory of the questions."""
    with out.open("w", encoding="ascii") as file:
        file.write(f'{json.dumps(about)[:-1]}, "rows": ')
        for side, members in sides.items():
            file.write(f"{', ' if side != TRAIN else '{'}{json.dumps(side)}: [")
            for place, each in enumerate(members):
                file.write(f"{', ' if place else ''}{json.dumps([each.prompt, each.answer])}")
            file.write("]")
        file.write("}}")


def _verifier(config: DatasetConfig) -> dict[str, Any]:
    """What peers have to agree on, and, for this machine, the place of a function."""
    if config.verifier == "math" and find_spec("math_verify") is None:
        raise UserError("the verifier math needs the extra math: pip install 'swarm-node[math]'")
    if config.verifier in VERIFIERS:
        return {"name": config.verifier, "tolerance": config.tolerance if config.verifier == "number" else 0.0}
    file, _, function = config.verifier.rpartition(":")
    path = Path(file if file.endswith(".py") else f"{file}.py").expanduser().absolute()
    try:
        with open_regular(path) as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"verifier {config.verifier}: {path} cannot be read: {error.strerror}") from error
    return {"name": f"function {function}", "file": digest, "place": f"{path}:{function}"}


def _lengths(values: list[int]) -> list[int]:
    return [min(values), int(median(values)), max(values)]


def _first(members: list[Question]) -> list[Question]:
    return members[:SHOWN]


def _shown(text: str) -> str:
    return text[:400]


if __name__ == "__main__":
    main()
