"""`swarm-node run`: the first second of a node, which starts everything that needs no torch.

Importing torch and transformers takes seconds. The scoring process and the network process, each
with imports of its own, get ready meanwhile. So peers have been found, and the first question is
answered at once, when the policy is loaded.
"""

import os
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

from rich.console import Console

from swarm_node.common import interrupts, plugins
from swarm_node.common.command import Command
from swarm_node.common.console import Terminal
from swarm_node.common.loading import quickly
from swarm_node.environments.registry import build_environment, by_kind
from swarm_node.home.asks import asked_by, going_on, keep
from swarm_node.home.folder import load_identity, owned
from swarm_node.network.client import build_network
from swarm_node.network.transport.backends import check_addresses
from swarm_node.network.transport.libraries import check_installed
from swarm_node.node.defaults import resolved
from swarm_node.node.lessons import lessons
from swarm_node.page.observer import page
from swarm_node.policy.by_card import getting
from swarm_node.settings import NodeConfig
from swarm_node.settings.command_line import from_command_line
from swarm_node.swarm.inviting import inviting
from swarm_node.swarm.joining import follow_card
from swarm_node.telemetry.events import Begun, Factory, Telemetry, observe
from swarm_node.telemetry.recent import RecentRounds
from swarm_node.telemetry.samples import samples
from swarm_node.telemetry.terminal import say
from swarm_node.telemetry.trackers.observer import trackers

PAGE = """\
usage: swarm-node [run] [CONFIG.toml] [--flags]

Trains a model on this machine and shares with the swarm. Ctrl-C saves and
stops; the next run continues from the home folder.

  --peers MULTIADDR ...          addresses of one or more running nodes
  --home FOLDER                  identity, checkpoints, logs (~/.swarm-node)
  --swarm NAME                   name of the swarm (public)
  --model.name NAME              smollm2-135m, a starter, folder or hub name
  --model.device NAME            cpu, cuda, cuda:1, mps (default: CUDA, if any)
  --model.lora-rank N            train adapters of this rank, not all weights
  --environment.tasks TASK ...   tasks to train on, such as gcd/easy,lcm/easy
  --training.learning-rate RATE  3e-4 for starters, 2e-4 for LoRA adapters,
                                 1e-6 to 1e-5 for all weights of other models
  --max-rounds N                 stop after this many rounds in total
  --validation.every N           rounds between tests with held-out questions
  --network.no-enabled           train alone
  --network.port N               port to listen on (default: any free one)
  --asynchronous.enabled         generate and train at the same time

Separate the values of a list with commas or spaces. Options can also be in
CONFIG.toml, such as [training] learning_rate = 1e-4."""


# Who is told of a run, by name. Each is made if the configuration asks for it
OBSERVERS: Mapping[str, Factory] = {
    "invite": inviting,
    "lessons": lessons,
    "page": page,
    "samples": samples,
    "trackers": trackers,
}


def run(config: NodeConfig, console: Console, asked: Mapping[str, Any]) -> None:
    """Train until `max_rounds`, or until interrupted. `asked`: what the user gave of all that says
    what is asked, which the home keeps.
    """
    home = config.home.expanduser()
    with owned(home), Telemetry(show=partial(say, console)) as telemetry, ExitStack() as stack:
        observe(telemetry, home, config, OBSERVERS)
        telemetry.emit(Begun())
        identity = load_identity(home)
        environment = build_environment(config, prepare=True)
        stack.callback(environment.close)
        keep(home, asked, partial(say, console))  # now: the questions are there
        progress = RecentRounds(time.monotonic)
        progress.note("asks", {kind.name: tasks for kind, tasks in by_kind(config)})
        progress.note("at_once", config.environment.at_once)
        network = build_network(config, identity, environment, progress.facts, time.time)
        network.start()
        stack.callback(network.close)
        with quickly():
            from swarm_node.node.build import work  # now, not above: it loads torch
        work(config, identity.peer_id, environment, network, telemetry, progress, console)


def is_attended() -> bool:
    """Whether somebody at a terminal reads what is asked, and can answer."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()


def agrees(question: str) -> bool:
    """Whether the user answers the question with yes."""
    print(f"{question} [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def command(argv: list[str]) -> None:
    """Runs until it is told to stop. It reports mistakes in addresses and missing extras before
    anything loads.
    """
    begin(from_command_line(NodeConfig, argv, "swarm-node run"))


def begin(config: NodeConfig) -> None:
    """Runs the whole node of a configuration, in the main thread of a process that does nothing
    else.
    """
    interrupts.nothing_to_save()
    os.umask(0o077)  # only this user may read files written from here on
    if not sys.stderr.isatty():
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")

    # So FORCE_COLOR puts no panel in a log
    console = Terminal(force_terminal=None if sys.stdout.isatty() else False)
    config = going_on(config, config.home.expanduser(), partial(say, console))
    for line in plugins.gone():
        say(console, line, style="yellow")
    asked = asked_by(config)  # before a card or the model adds options of its own
    config = follow_card(config, partial(say, console), keep=True)
    check_addresses(config.network)  # before anything that takes seconds to load
    if config.network.enabled:
        check_installed(config.network.backend)
    tell = partial(say, console)
    get = getting(tell, config.limits.download * 1e6, agrees if is_attended() else None)
    config = resolved(config, tell, get)
    say(console, f"loading {config.model.name} ...")
    run(config, console, asked)


RUN = Command(NodeConfig, PAGE, command)
