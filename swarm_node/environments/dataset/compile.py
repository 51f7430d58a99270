"""A file to questions, in a process that ends at once: `python -m swarm_node.environments.dataset.compile`, not for
people. Reads a specification from standard input, writes the questions for scoring processes where it says, and prints
what there is to know of them. So the node never imports a reader of Parquet, and never holds a row.
"""

import hashlib
import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

from swarm_node.common.errors import UserError
from swarm_node.environments.dataset import questions, reading
from swarm_node.environments.dataset.questions import HELD_OUT, TRAIN, Question
from swarm_node.settings.dataset import VERIFIERS, DatasetConfig

SHOWN = 3  # prompts


def main() -> None:
    """Exit code 1, and the mistake as one line, where the file will not do."""
    out = os.dup(1)
    os.dup2(2, 1)  # whatever a library prints
    asked = json.load(sys.stdin)
    try:
        facts = compiled(DatasetConfig.model_validate(asked["dataset"]), asked["out"])
    except UserError as error:
        sys.stderr.write(f"\n{error}\n")
        sys.exit(1)
    with os.fdopen(out, "w") as stream:
        json.dump(facts, stream)


def compiled(config: DatasetConfig, out: str) -> dict[str, Any]:
    """The facts of a data set. Its questions are written to `out`, unless that is empty."""
    made = questions.gather(reading.rows(config.file), config.prompt, config.answer, config.template)
    verifier = _verifier(config)
    sides = made.split(config.held_out)
    if not sides[TRAIN]:
        raise UserError(f"data set {config.file}: no question is left to train on: give a smaller held_out")
    version = questions.version(made, config.held_out, {k: v for k, v in verifier.items() if k != "place"})
    if out:
        rows = {side: [[each.prompt, each.answer] for each in members] for side, members in sides.items()}
        Path(out).write_text(json.dumps({"version": version, "verifier": verifier, "rows": rows}), encoding="ascii")
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


def _verifier(config: DatasetConfig) -> dict[str, Any]:
    """What peers have to agree on, and, for this machine, the place of a function."""
    if config.verifier == "math" and find_spec("math_verify") is None:
        raise UserError("the verifier math needs the extra math: pip install 'swarm-node[math]'")
    if config.verifier in VERIFIERS:
        return {"name": config.verifier, "tolerance": config.tolerance if config.verifier == "number" else 0.0}
    file, _, function = config.verifier.rpartition(":")
    path = Path(file if file.endswith(".py") else f"{file}.py").expanduser().absolute()
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
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
