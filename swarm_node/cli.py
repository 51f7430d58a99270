"""The command line. A first argument that is a flag, or none, means `run`. Never prompts.

Commands import what they need when they are called, so that `--help` and `id` answer at once.
"""

import argparse
import atexit
import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console
from rich.table import Table
from rich.text import Text

from swarm_node.common.errors import UserError
from swarm_node.common.printable import printable
from swarm_node.settings import (
    AskConfig,
    AttackSimulationConfig,
    BootstrapConfig,
    EvaluationConfig,
    NodeConfig,
    SimulationConfig,
)
from swarm_node.settings.sources import describe, environment_values, flatten, from_command_line, read_file, resolve

USAGE = """\
swarm-node: a small language model that learns together with others by sharing the text of its attempts.

usage: swarm-node [COMMAND] [arguments]     (no command means run)

  run [CONFIG.toml] [--peers MULTIADDR ...] [--flags]
                                  train here and share; goes on by itself from its home folder
  simulate [CONFIG.toml] [--flags]  many nodes on this machine: what does sharing bring?
  attack [--kind stealth] [--share 0.25] [--defence regroup clip] [--flags]   simulate with hostile nodes
  eval FOLDER [--flags]           accuracy of a model on held-out questions
  solve SIZE|FILE.json [--index]  the solution of a Temporal Clue puzzle, found by CP-SAT
  bootstrap [--port 31330] [--home FOLDER]   an entry and relay node for others; does not train
  status [--home FOLDER] [--json]  how the running node is; exit code 0 only when it is healthy
  peers [--home FOLDER] [--json]  whom the running node knows
  doctor [CONFIG.toml] [--flags]  what keeps this node from training or sharing, and what to do about it
  init [--home FOLDER]            make this node's identity (done by run too)
  id [--home FOLDER]              show this node's identity
  check [CONFIG.toml]             show every option, its value, where it comes from and what it means

Options come from defaults < CONFIG.toml < environment (SWARM_NODE_TRAINING__LEARNING_RATE=1e-4) < flags.
`swarm-node COMMAND --help` lists all options of a command."""


def main() -> None:
    """Entry point: exit code 0, 2 for a user's mistake, 130 when interrupted."""
    leave(outcome(sys.argv[1:]))


def outcome(argv: Sequence[str]) -> int:
    """Exit code of a command. SystemExit where the command has one of its own."""
    try:
        dispatch(argv)
        sys.stdout.flush()
    except UserError as error:
        print(f"swarm-node: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever read our output has gone
        return 141
    return 0


def leave(code: int) -> NoReturn:
    """As sys.exit, but the objects of torch's and sympy's modules are not taken apart: that is a second of CPU time."""
    atexit._run_exitfuncs()
    with suppress(BrokenPipeError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def dispatch(argv: Sequence[str]) -> None:
    arguments = list(argv)
    if arguments[:1] in (["--help"], ["-h"], ["help"]):
        print(USAGE)
        return
    command = "run" if not arguments or arguments[0].startswith("-") else arguments.pop(0)
    if command not in COMMANDS:
        raise UserError(f"unknown command {command!r}: one of {', '.join(COMMANDS)}; see swarm-node --help")
    COMMANDS[command](arguments)


def run(argv: list[str]) -> None:
    config = from_command_line(NodeConfig, with_peers(argv), "swarm-node run")
    if config.asynchronous.enabled:  # before torch is loaded: its idle threads must not spin on the generator's cores
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    from swarm_node.network.transport.backends import check_addresses, check_installed

    check_addresses(config.network)  # before anything that takes seconds to load
    if config.network.enabled:
        check_installed(config.network.backend)
    from swarm_node.commands.run.start import run as run_node

    run_node(config, Console())


def with_peers(argv: Sequence[str], option: str = "--network.peers") -> list[str]:
    """`--peers A --peers B C` as the one option it stands for."""
    rest: list[str] = []
    peers: list[str] = []
    taking = False
    for argument in argv:
        if argument == "--peers" or argument.startswith("--peers="):
            taking = True
            peers += argument.split("=", 1)[1:]
        elif taking and not argument.startswith("-"):
            peers.append(argument)
        else:
            taking = False
            rest.append(argument)
    return [*rest, option, *peers] if peers else rest


def simulate(argv: list[str]) -> None:
    config = from_command_line(SimulationConfig, argv, "swarm-node simulate")
    from swarm_node.simulation.main import simulate as run_simulation

    run_simulation(config)


def attack(argv: list[str]) -> None:
    """A simulation with hostile nodes; the options it is about have short names."""
    short = {"--kind": "--attack.kind", "--share": "--attack.share", "--defence": "--defence.use"}
    config = from_command_line(AttackSimulationConfig, [short.get(a, a) for a in argv], "swarm-node attack")
    from swarm_node.simulation.main import simulate as run_simulation

    run_simulation(config)


def evaluate(argv: list[str]) -> None:
    arguments = ["--json-output" if a == "--json" else a for a in argv]
    if arguments and not arguments[0].startswith("-"):
        arguments = ["--model.name", *arguments]
    config = from_command_line(EvaluationConfig, arguments, "swarm-node eval", flags_only=True)
    from swarm_node.commands.evaluate import as_json, table
    from swarm_node.commands.evaluate import evaluate as run_evaluation

    rows = run_evaluation(config, Console(stderr=True))
    if config.json_output:
        print(json.dumps(as_json(rows)))
    else:
        Console().print(table(rows))


def solve(argv: list[str]) -> None:
    """The solution of a puzzle: ours by its address, others' from the text of a JSON file."""
    parser = argparse.ArgumentParser(prog="swarm-node solve", description=solve.__doc__)
    parser.add_argument("what", help="temporal_clue/tiny, small, medium, large or full; or a JSON file of puzzles")
    parser.add_argument("--seed", type=int, default=0, help="of the address, where it is one")
    parser.add_argument("--index", type=int, default=0, help="of the address, or the place in the file, from 0")
    options = parser.parse_args(argv)
    from swarm_node.environments.temporal_clue.solve import solve as lines

    for line in lines(options.what, options.seed, options.index):
        print(line)


def init(argv: list[str]) -> None:
    home = from_command_line(NodeConfig, argv, "swarm-node init").home.expanduser()
    from swarm_node.commands.home import KEY_FILE, load_identity

    existed = (home / KEY_FILE).exists()
    print(load_identity(home).peer_id)
    print(
        f"{'already there' if existed else 'made'}: {home / KEY_FILE}; keep a copy, it is this node's name in the swarm"
    )


def show_id(argv: list[str]) -> None:
    home = from_command_line(NodeConfig, argv, "swarm-node id").home.expanduser()
    from swarm_node.commands.home import KEY_FILE, load_identity

    if not (home / KEY_FILE).exists():
        raise UserError(f"no identity in {home}; make one with: swarm-node init --home {home}")
    print(load_identity(home).peer_id)


def bootstrap(argv: list[str]) -> None:
    config = from_command_line(BootstrapConfig, with_peers(argv, "--peers"), "swarm-node bootstrap", flags_only=True)
    from swarm_node.commands.bootstrap import bootstrap as run_bootstrap

    run_bootstrap(
        config,
        show=lambda address: print(printable(address), flush=True),
        warn=lambda text: print(printable(text, 400), file=sys.stderr, flush=True),
    )


def status(argv: list[str]) -> None:
    """Exit code 1 where the node is not healthy."""
    config = _asking(argv, "swarm-node status")
    from swarm_node.commands.status import ask, status_lines

    answer = ask(config.home.expanduser())
    print(json.dumps(answer) if config.json_output else "\n".join(status_lines(answer)))
    sys.exit(0 if answer["healthy"] else 1)


def peers(argv: list[str]) -> None:
    config = _asking(argv, "swarm-node peers")
    from swarm_node.commands.status import PEER_COLUMNS, ask, peer_rows

    answer = ask(config.home.expanduser())
    if "network" not in answer:
        raise UserError("; ".join(answer["problems"]))
    if config.json_output:
        print(json.dumps(answer["network"].get("peers", [])))
        return
    shown = Table(title=f"{answer['network'].get('connected', 0)} connected")
    for column in PEER_COLUMNS:
        shown.add_column(column, overflow="fold")
    for row in peer_rows(answer):
        shown.add_row(*map(Text, row))
    Console().print(shown)


def doctor(argv: list[str]) -> None:
    """Exit code 0: trains and shares, 1: trains alone, 3: does not train."""
    config = from_command_line(NodeConfig, with_peers(argv), "swarm-node doctor")
    from swarm_node.commands.doctor import diagnose, verdict

    findings = []
    for finding in diagnose(config):
        findings.append(finding)
        print(f"{finding.level:5}  {finding.subject}: {finding.text}", flush=True)
    code, text = verdict(findings)
    print(text)
    sys.exit(code)


def _asking(argv: list[str], program: str) -> AskConfig:
    arguments = ["--json-output" if argument == "--json" else argument for argument in argv]
    return from_command_line(AskConfig, arguments, program, flags_only=True)


def check(argv: list[str]) -> None:
    """Resolve a configuration as `run` would, explain it, and find what would go wrong."""
    if argv[:1] in (["--help"], ["-h"]):
        print("usage: swarm-node check [CONFIG.toml]   every option: value, where it comes from, what it means")
        return
    file = Path(argv[0]) if argv else None
    config = resolve(NodeConfig, file, os.environ)
    in_file = flatten(read_file(file)) if file else {}
    in_environment = flatten(environment_values(NodeConfig, os.environ))
    shown = Table("option", "value", "from", "meaning", title=f"{file or 'defaults'}, as swarm-node run sees it")
    texts = describe(NodeConfig)
    for key, value in flatten(config.model_dump(mode="json")).items():
        source = "environment" if key in in_environment else "file" if key in in_file else "default"
        shown.add_row(key, _show(value), source, texts.get(key, ""), style="bold" if source != "default" else "")
    Console().print(shown)
    from swarm_node.assembly.learner import examine

    for line in examine(config):
        print(line)
    import torch

    from swarm_node.assembly.asynchronous import advice
    from swarm_node.telemetry.manifest import usable_cores

    print(advice(config, usable_cores(), torch.cuda.device_count()))


def _show(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


COMMANDS: dict[str, Callable[[list[str]], None]] = {
    "run": run,
    "simulate": simulate,
    "attack": attack,
    "eval": evaluate,
    "solve": solve,
    "bootstrap": bootstrap,
    "status": status,
    "peers": peers,
    "doctor": doctor,
    "init": init,
    "id": show_id,
    "check": check,
}


if __name__ == "__main__":
    main()
