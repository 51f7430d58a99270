"""`swarm-node join CODE`: `run` with the peers, swarm and tasks of a code, which the home
remembers.
"""

import json
import sys
from collections.abc import Iterable, Mapping
from functools import reduce
from pathlib import Path
from typing import Any

from swarm_node.commands.run import RUN
from swarm_node.common.command import Command
from swarm_node.common.errors import UserError
from swarm_node.common.files import plain, write_bytes
from swarm_node.environments.registry import build_environment, with_environment
from swarm_node.home.asks import is_kept
from swarm_node.home.folder import load_identity, owned
from swarm_node.settings import NodeConfig
from swarm_node.settings.command_line import from_command_line, sources_of
from swarm_node.settings.flags import flags_and_words, is_flag
from swarm_node.settings.of_home import HOME_FILE, as_flag, may_set
from swarm_node.settings.options import options
from swarm_node.settings.sources import origins
from swarm_node.swarm.code import Invitation, decode

TASKS = "environment.tasks"

PAGE = f"""\
usage: swarm-node join CODE [--flags]

Trains and shares in the swarm of the node that ran swarm-node invite. The code
contains the peers, the swarm and the tasks; your own options take precedence.
The home folder keeps them in {HOME_FILE}, so that swarm-node run is
enough next time. It does not keep secrets: a line tells you which flags to give
again.

  --home FOLDER                  identity, checkpoints, logs (~/.swarm-node)
  --environment.tasks TASK ...   only these of the swarm's tasks
  --dataset.file FILE            your copy of the file that the code names
  --max-rounds N                 stop after this many rounds in total

All other options are those of run."""


def command(argv: list[str]) -> None:
    """Joins, then runs. A mistake in the code is reported before anything is written."""
    if argv == ["--help"]:
        from_command_line(NodeConfig, argv, "swarm-node join")
    before, words = flags_and_words(argv)
    code, *flags = [*words, *before] or [""]
    if not code or is_flag(code):
        raise UserError(
            "swarm-node join needs a code first: swarm-node join CODE; swarm-node invite prints it"
        )
    invited = decode(code)
    if invited.network:  # its card says the rest
        print(f"joining network {invited.network} through {invited.addresses[0]}", flush=True)
        RUN.do(["--manifest", code, *flags])
        return
    config = from_command_line(NodeConfig, flags, "swarm-node join")
    _, sources = sources_of(NodeConfig, flags, "")
    own = {key: where for key, where in origins(sources).items() if where != "home"}
    if TASKS not in own:
        check(invited, config)
    home = config.home.expanduser()
    with owned(home):
        load_identity(home)  # first: it makes the folder a home
        write_bytes(home / HOME_FILE, remembered(invited, config, {*own}).encode(), 0o600)
    if again := not_kept(invited, config, own):
        repeated = " ".join(again.values())
        told = f"the home does not store {', '.join(again)}: next time give {repeated} again"
        print(f"swarm-node: warning: {told}", file=sys.stderr, flush=True)
    print(f"joining the swarm {invited.swarm} through {invited.addresses[0]}", flush=True)
    RUN.do(flags)


def check(invited: Invitation, config: NodeConfig) -> None:
    """UserError where this machine cannot ask the questions of the others: it says what is
    missing.
    """
    files = [
        f"{each.environment} is {each.file}, version {each.version}"
        for each in invited.asked
        if each.file
    ]
    need = (
        f"; in the invitation {', '.join(files)}: get that file, and name it with --dataset.file"
        if files
        else ""
    )
    tasks = tuple(task for each in invited.asked for task in each.tasks)
    try:
        environment = build_environment(with_environment(config, tasks=tasks) if tasks else config)
    except UserError as error:
        raise UserError(f"{error}{need}") from error
    environment.close()
    here = {name: version for name, (version, _) in environment.catalogue.environments.items()}
    for each in invited.asked:
        if here.get(each.environment) != each.version:
            has = (
                f"{each.environment} is of version {here.get(each.environment)} here, and "
                f"{each.version} there"
            )
            raise UserError(
                f"{has}{need or '; both need the same version of what makes these questions'}"
            )


def remembered(invited: Invitation, config: NodeConfig, own: set[str]) -> str:
    """What the home remembers, as TOML: what the code says, and the user's own options for the
    questions, if a home may set them.
    """
    values: dict[str, Any] = {"swarm": invited.swarm, "network.suggested": invited.addresses}
    if tasks := [task for each in invited.asked for task in each.tasks]:
        values |= {TASKS: tasks, "environment.at_once": invited.at_once}
    allowed, about = may_set(type(config)), about_questions(invited, own)
    values |= {key: value_of(config, key) for key in about if key in allowed}
    lines = [
        f"{key} = {json.dumps(plain(value), ensure_ascii=False)}\n"
        for key, value in values.items()
        if value is not None
    ]
    return "# swarm-node join wrote this; remove it to leave that swarm\n" + "".join(lines)


def not_kept(invited: Invitation, config: NodeConfig, own: Iterable[str]) -> Mapping[str, str]:
    """The user's own options for the questions that neither the home nor the user's record of homes
    keeps, each with its flag.
    """
    kind = type(config)
    allowed, known = may_set(kind), options(kind)
    about = about_questions(invited, own)
    again = [key for key in about if key not in allowed and not is_kept(key)]
    return {key: as_flag(known[key], _whole(value_of(config, key))) for key in again}


def about_questions(invited: Invitation, own: Iterable[str]) -> list[str]:
    """The user's own options that say what is asked."""
    sections = {"environment", *(each.environment for each in invited.asked)}
    return sorted(key for key in own if key.partition(".")[0] in sections)


def value_of(config: NodeConfig, key: str) -> Any:
    """The value of the option of this key."""
    return reduce(getattr, key.split("."), config)


def _whole(value: Any) -> Any:
    """The value; of a file its whole path, so that the flag is right in any folder."""
    named = value if isinstance(value, str | Path) else ""
    return str(Path(named).absolute()) if named and Path(named).is_file() else value


JOIN = Command(NodeConfig, PAGE, command)
