"""`swarm-node task try`: what a file of questions comes to, what peers must agree on, and what
leaves this machine.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Annotated

from protocol.messages import Round, Turn
from swarm_node.common.command import Command
from swarm_node.common.errors import UserError, printable
from swarm_node.environments.dataset.environment import Facts, read
from swarm_node.environments.kinds import EVALUATION, split_task
from swarm_node.environments.registry import build_environment, kinds, with_environment
from swarm_node.rollouts.groups import Skipped
from swarm_node.rollouts.transcript import parse
from swarm_node.settings import LearningConfig
from swarm_node.settings.command_line import from_command_line
from swarm_node.settings.questions import DatasetConfig
from swarm_node.settings.sections import Alias

PAGE = """\
usage: swarm-node task try FILE|TASK [--flags]

Checks how a file of questions is read and scored: rows, lengths, duplicates,
which questions are held out, what peers must have in common with you, and what
will leave this machine. Trains nothing. If you name a TASK with several turns,
such as bisect/easy, you can play it: each line that you type is a turn.

  FILE               .jsonl, .json, .csv, .tsv, .parquet, hf:NAME[:CONFIG:SPLIT]
  --prompt COLUMN    column with the question (prompt, question, problem, ...)
  --answer COLUMN    column with the reference answer (answer, solution, ...)
  --template TEXT    text of a question, with columns in braces
  --verifier NAME    exact, number, choice, regex, json, math, FILE:FUNCTION
  --tolerance X      for number: allowed difference, as a share (0)
  --form-weight X    share of the reward for form and length (0)
  --held-out X       share of the questions that no node trains on (0.1)
  --json             print one JSON object, for scripts

run takes the same options in the section [dataset] of CONFIG.toml, or as flags
with `dataset.` before their names."""


class LookConfig(DatasetConfig):
    """What a file of questions comes to."""

    json_output: Annotated[bool, Alias("--json")] = False
    """Print one JSON object."""


def command(argv: list[str]) -> None:
    """Prints what there is to know. A first argument without dashes is the file."""
    config = from_command_line(
        LookConfig, argv, "swarm-node task try", flags_only=True, first="file"
    )
    if is_task(config.file):
        for line in conversation(config.file, sys.stdin):
            print(line, flush=True)
        return
    asked = DatasetConfig.model_validate(config.model_dump(exclude={"json_output"}))
    try:
        facts = read(asked)
    except UserError as error:
        raise UserError(str(error).replace("--dataset.", "--")) from error
    if config.json_output:
        print(json.dumps(facts.model_dump()))
        return
    for line in lines(asked, facts):
        print(line)


def lines(config: DatasetConfig, facts: Facts) -> Iterator[str]:
    """The facts as lines for a person."""
    for warning, text in facts.notes():
        yield f"{'warning: ' * warning}{text}".replace("--dataset.", "--")
    yield (
        f"{facts.duplicates} rows occur twice, and {facts.leaking} held-out rows are much like one "
        "to train on"
    )
    for what, chars in (("prompts", facts.prompt_chars), ("answers", facts.answer_chars)):
        yield f"{what}: {chars[0]} to {chars[2]} characters, half of them up to {chars[1]}"
    for prompt, answer in facts.examples:
        yield f"    {printable(prompt, 90)}  ->  {printable(answer, 40)}"
    agreed = " ".join(f"{key} {value}" for key, value in facts.verifier.items() if key != "place")
    yield f"peers share these questions if they have the same version: {facts.version}"
    yield f"    of rows and template {facts.rows}, verifier {agreed}, held out {config.held_out:g}"
    yield (
        "what leaves this machine: completions, which quote questions. Everybody in the swarm "
        "can read them,"
    )
    yield "    and its name keeps nobody out. Reference answers, and the file itself, stay here."


TRY = Command(LookConfig, PAGE, command)


def is_task(name: str) -> bool:
    """Whether a kind of environment that is installed offers this task."""
    dataset, config_id = split_task(name)
    return any(config_id in kind.tasks.get(dataset, ()) for kind in kinds(()))


def conversation(task: str, said: Iterable[str]) -> Iterator[str]:
    """What the environment answers to each line of `said`, which may hold calls, and in the end the
    reward. Raises UserError where a question of this task has one turn, or cannot be played.
    """
    with closing(
        build_environment(with_environment(LearningConfig(), tasks=(task,)))
    ) as environment:
        (question,) = environment.sample(EVALUATION, Round(0), 1)
        most = environment.catalogue.turns(question)
        if most == 1:
            raise UserError(
                f"a question of {task} has one turn, so there is nothing to play: name a task of "
                "several turns, or ask its questions with swarm-node model eval"
            )
        turns, score = list[Turn](), 0.0
        yield f"environment: {environment.prompts([question])[0]}"
        for line in said:
            turns.append(parse(line.rstrip("\n")))
            (plays,) = environment.play([(question, [turns])])
            played = plays if isinstance(plays, Skipped) else plays[0]
            if isinstance(played, Skipped):
                raise UserError(f"{task} cannot be played: {played.reason}")
            score = played.score
            yield from (f"environment: {printable(text, 4096)}" for text in played.observations[-1])
            if played.done or len(turns) == most:
                break
        yield f"reward {score:g}"
