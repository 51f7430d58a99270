"""`swarm-node contribute`: joins a swarm, and gives it completions of a server."""

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from random import Random

from swarm_node.commands.command import Command
from swarm_node.commands.home import load_identity, owned
from swarm_node.common.errors import UserError, printable
from swarm_node.environments.registry import build_environment, leaving
from swarm_node.extensions.contribute.api import ApiGenerator
from swarm_node.extensions.contribute.budget import Budget
from swarm_node.extensions.contribute.session import Contributor
from swarm_node.extensions.contribute.settings import ContributeConfig
from swarm_node.network.client import RemoteNetwork
from swarm_node.network.process.messages import Rules
from swarm_node.network.transport.backends import check_addresses, check_installed
from swarm_node.node.rounds import Rounds
from swarm_node.settings.command_line import from_command_line
from swarm_node.settings.secret import Secret

KEY_VARIABLE = "SWARM_NODE_API_KEY"
TERMS = (
    "what the model generates is published, and others train on it: see that the terms of your provider and the "
    "licence of the model allow both"
)

PAGE = """\
usage: swarm-node contribute [CONFIG.toml] --api URL --model NAME [--flags]

Give a swarm completions without training: of a model behind a server that has
OpenAI's API (Ollama, llama.cpp, vLLM, LiteLLM, a provider).

  --api URL                  such as http://127.0.0.1:11434/v1
  --model NAME               as the server calls it
  --peers MULTIADDR ...      any running node
  --environment.tasks LIST   tasks of the swarm
  --samples N                per prompt (8); also --temperature, --stop
  --environment.system TEXT  what the model is told before each prompt
  --no-thinking              ask a model that thinks not to; also --extra-body
  --requests-per-minute N    budget (60); also --tokens-per-minute (200000)
  --total-tokens N           of all (10000000); also --total-requests (20000)
  --key-file FILE            the server's key; else SWARM_NODE_API_KEY has it
  --home FOLDER              identity and budget (~/.swarm-node/contributor)

Stops on Ctrl-C. The key stands in no log and in no list of processes."""


def contribute(config: ContributeConfig, say: Callable[[str], None]) -> None:
    """Until `max_rounds`, or Ctrl-C. UserError."""
    home = config.home.expanduser()
    key = take_key(config.key_file)
    with owned(home), ExitStack() as stack:
        identity = load_identity(home)
        environment = build_environment(config, prepare=True)
        stack.callback(environment.close)
        rules = Rules.of(config.swarm, environment.catalogue)
        began = time.monotonic()

        def progress() -> dict[str, object]:
            uptime = round(time.monotonic() - began, 1)
            return {"seconds_since": 0.0, "published": contributor.published, "uptime": uptime}

        network = RemoteNetwork(identity, home, config.network, rules, 0, progress)  # 0: it fetches nothing
        rounds = Rounds(home / "rounds.json")
        contributor = Contributor(identity.peer_id, environment, network, rounds, config.questions)
        budget = Budget(config, home / "budget.json", time.time)
        api = ApiGenerator(config, key, budget, _pause, say, Random(), time.time)
        stack.callback(api.close)
        network.start()
        stack.callback(network.close)
        say(f"contributor {identity.peer_id} in {home}")
        say(TERMS)
        if told := leaving(config):
            say(told)
        _rounds(config, contributor, network, api, say)
        say(f"stopped after {contributor.published} groups published")


def _rounds(
    config: ContributeConfig,
    contributor: Contributor,
    network: RemoteNetwork,
    api: ApiGenerator,
    say: Callable[[str], None],
) -> None:
    done = 0
    while not config.max_rounds or done < config.max_rounds:
        began = time.monotonic()
        published = contributor.round(api.complete)
        done += 1
        for text, _ in network.lines():
            say(printable(text, 400))
        skipped = ", ".join(f"{count} {reason}" for reason, count in contributor.skipped.items())
        say(f"round {done}: {published} groups published, {contributor.published} in all{skipped and f'; {skipped}'}")
        if told := contributor.why_in_vain():
            say(told)
        _pause(config.round_seconds - (time.monotonic() - began))


def take_key(file: Path | None) -> Secret:
    """The key of a server, out of the environment for good: no process started later inherits it. UserError."""
    key = os.environ.pop(KEY_VARIABLE, "")
    try:
        key = file.expanduser().read_text(encoding="utf-8") if file else key
    except OSError as error:
        raise UserError(f"key file {file}: {error.strerror}") from error
    if file and not key.strip():
        raise UserError(f"key file {file} is empty: its first line is the server's key")
    return Secret(key.strip().partition("\n")[0])


def _pause(seconds: float) -> None:
    if seconds > 0:
        threading.Event().wait(seconds)


def command(argv: list[str]) -> None:
    """Runs until it is told to stop."""
    config = from_command_line(ContributeConfig, argv, "swarm-node contribute")
    if not config.api.get_secret_value().startswith(("http://", "https://")) or not config.model:
        raise UserError("contribute needs a server and a model: --api http://127.0.0.1:11434/v1 --model NAME")
    check_addresses(config.network)
    if config.network.enabled:
        check_installed(config.network.backend)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # it says goodbye as it does on Ctrl-C
    try:
        contribute(config, lambda line: print(line, flush=True))
    except KeyboardInterrupt:
        print("stopped", flush=True)


CONTRIBUTE = Command(ContributeConfig, PAGE, command)
