"""Turns a file into questions, in a process that ends at once (`elsewhere.py`). Not a command for
people.
"""

import hashlib
import json
import resource
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

from swarm_node.common.errors import UserError, reason_of
from swarm_node.common.files import open_to_read
from swarm_node.environments import elsewhere
from swarm_node.environments.dataset import answerable, hub, questions, reading, shapes
from swarm_node.environments.dataset.questions import QuestionRow, Questions
from swarm_node.environments.dataset.verifiers import shown
from swarm_node.environments.split import HELD_OUT, TRAIN
from swarm_node.settings.questions import VERIFIERS, DatasetConfig

SHOWN = 3  # examples
MAX_MEMORY = 1024 * 1024 * 1024  # bytes of this process, whatever a library makes of a file


def bounded(asked: Mapping[str, Any], out: str) -> dict[str, Any]:
    """Calls `compiled` after limiting the memory of this process. Raises UserError where MAX_MEMORY
    is not enough.
    """
    with suppress(ValueError, OSError):  # a lower limit is set from outside: it holds anyway
        resource.setrlimit(resource.RLIMIT_DATA, (MAX_MEMORY, MAX_MEMORY))
    try:
        return compiled(DatasetConfig.model_validate(asked), out)
    except MemoryError as error:
        raise UserError(
            f"reading it takes more than {MAX_MEMORY >> 20} MB of memory: use a part of it, and do "
            "not trust a small Parquet file that does so"
        ) from error


def compiled(config: DatasetConfig, out: str) -> dict[str, Any]:
    """The facts of a data set. Its questions are written to `out`, unless that is empty."""
    hub.notes.clear()
    columns = (config.prompt, config.answer, config.template)
    rows_read = reading.rows(config.file, questions.columns(*columns))
    made = questions.gather(rows_read, *columns, config.verifier)
    verifier = _verifier(
        config if config.verifier != "auto" else _recognised(config, made), made.form
    )
    try:
        refused = answerable.try_rows(made, verifier)
    except UserError as error:
        raise UserError(f"data set {config.file}: {error}") from error
    contradicting = answerable.contradicting(made, verifier)
    sides = made.split(config.held_out)
    if not sides[TRAIN]:
        raise UserError(
            f"data set {config.file}: no question is left to train on: lower --dataset.held-out, "
            "or add rows"
        )
    agreed = {k: v for k, v in verifier.items() if k != "place"}
    version = questions.version(made, config.held_out, agreed, config.salt.get_secret_value())
    if out:
        rows = {side: _pairs(members) for side, members in sides.items()}
        # Streamed: one string would take memory several times
        with Path(out).open("w", encoding="ascii") as file:
            json.dump({"version": version, "verifier": verifier, "rows": rows}, file)
    prompt_lengths = [len(question.prompt) for question in made.kept]
    answer_lengths = [len(shown(question.answer)) for question in made.kept]
    examples: list[list[str]] = []
    for question in sides[TRAIN][:SHOWN]:
        examples.append([_shown(question.prompt), _shown(shown(question.answer))])
    return {
        "version": version,
        "reads": _reads(config, made),
        "hidden": made.hidden,
        "hidden_options": made.options,
        "rows": questions.version(made, 0.0, {}),
        "verifier": verifier,
        "train": len(sides[TRAIN]),
        "held_out": len(sides[HELD_OUT]),
        "left_out": dict(made.left_out),
        "lines": made.lines,
        "duplicates": made.duplicates,
        "contradicting": len(contradicting),
        "contradicting_lines": contradicting[: answerable.SHOWN_LINES],
        "tried": refused.tried,
        "refused": len(refused.lines),
        "refused_lines": refused.lines[: answerable.SHOWN_LINES],
        "leaking": questions.leaking(sides),
        "prompt_chars": _lengths(prompt_lengths),
        "answer_chars": _lengths(answer_lengths),
        "examples": examples,
        "besides": hub.notes,
    }


def _pairs(members: Sequence[QuestionRow]) -> list[tuple[str, Any]]:
    return [(question.prompt, question.answer) for question in members]


def _reads(config: DatasetConfig, made: Questions) -> tuple[str, str]:
    """The columns of question and answer, as a person reads them."""
    columns = [made.context, made.prompt]
    if not config.prompt:
        below = shapes.GOES_ON.get(made.prompt, "")
        columns += [below] if below in made.columns else []
    columns = list(filter(None, columns))
    if config.template:
        columns = ["template"]
    right = made.answer or "its last turn"
    if made.lettered:
        columns.append(made.options)
        right = f"{right} ({made.way})"
    return " + ".join(columns), right


def _recognised(config: DatasetConfig, made: Questions) -> DatasetConfig:
    """The configuration with the verifier for the form of the answers. Rows without that form are
    left out.
    """
    if 2 * made.lettered > len(made.kept):
        return config.model_copy(update={"verifier": "choice"})
    form = made.form = questions.form_of([row.answer for row in made.kept])
    with_form: list[QuestionRow] = []
    for row in made.kept:
        if not form or questions.final(form, row.answer):
            with_form.append(row)
        else:
            made.leave_out(f"no answer {questions.MARKS[form]}", row.line)
    made.kept = with_form
    verifier = questions.verifier_of(form, [row.answer for row in with_form])
    return config.model_copy(update={"verifier": verifier})


def _verifier(config: DatasetConfig, form: str) -> dict[str, Any]:
    """The verifier as peers have to agree on it; of a function also its place on this machine."""
    # Left out where empty: versions stay as they were
    beside: dict[str, Any] = {"form": form} if form else {}
    beside |= {"form_weight": config.form_weight} if config.form_weight else {}
    if config.verifier == "math" and find_spec("math_verify") is None:
        raise UserError(
            "the verifier math needs the extra math: pip install 'textswarm[math]'; or take "
            "another verifier"
        )
    if config.verifier in VERIFIERS:
        tolerance = config.tolerance if config.verifier == "number" else 0.0
        return {"name": config.verifier, "tolerance": tolerance, **beside}
    file, _, function = config.verifier.rpartition(":")
    path = Path(file if file.endswith(".py") else f"{file}.py").expanduser().absolute()
    try:
        with open_to_read(path) as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise UserError(
            f"verifier {config.verifier}: {path} cannot be read: {reason_of(error)}; correct "
            "--dataset.verifier"
        ) from error
    return {"name": f"function {function}", "file": digest, "place": f"{path}:{function}", **beside}


def _lengths(values: list[int]) -> list[int]:
    return [min(values), int(median(values)), max(values)]


def _shown(text: str) -> str:
    return text[:400]


if __name__ == "__main__":
    elsewhere.answer(bounded)
