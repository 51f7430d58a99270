"""One node at work, from its home folder, until it is told to stop. Loads torch: start.py comes first.

The home folder holds everything: identity, checkpoints, events and manifest. Starting again in the same home goes on
exactly where the last checkpoint was taken.
"""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from rich.console import Console

from protocol.messages import PeerId, Round
from swarm_node.assembly.asynchronous import driving, trainer_side
from swarm_node.assembly.learner import build_node, build_policy
from swarm_node.assembly.trackers import build_trackers
from swarm_node.commands.check import origins, values_of
from swarm_node.commands.run.checkpoints import Keeper, Kept
from swarm_node.commands.run.samples import watcher
from swarm_node.commands.run.stopping import Interrupted, Stop, stoppable
from swarm_node.commands.run.validation import Validation
from swarm_node.common.errors import UserError
from swarm_node.common.printable import printable
from swarm_node.compute.policy import Policy
from swarm_node.compute.training.trainer import GrpoTrainer
from swarm_node.environments.scoring import sandbox
from swarm_node.interfaces import Environment, Runner
from swarm_node.network.process.remote import RemoteNetwork
from swarm_node.node import Node
from swarm_node.settings import NodeConfig
from swarm_node.settings.sources import file_in
from swarm_node.telemetry.events import Notice, RoundDone, RunFinished, RunStarted, Warned
from swarm_node.telemetry.jsonlines import JsonLines
from swarm_node.telemetry.manifest import manifest, write_manifest
from swarm_node.telemetry.recent import RecentRounds
from swarm_node.telemetry.sinks import Sink, Telemetry
from swarm_node.telemetry.terminal import node_terminal, say

LINE_CHARS = 400  # of what the network says


def work(
    config: NodeConfig,
    peer_id: PeerId,
    environment: Environment,
    network: RemoteNetwork,
    progress: RecentRounds,
    console: Console,
) -> None:
    """Train until `max_rounds`, or until interrupted. The caller owns the home, and closes environment and network."""
    home = config.home.expanduser()
    # Until the first round has ended there is nothing to lose: whoever wants the node to stop need not wait.
    with stoppable() as stop, suppress(Interrupted), stop.interruptible():
        kept = Kept(config)
        both, config = config, trainer_side(config)
        with ExitStack() as stack:
            policy = build_policy(config.model, kept.latest)
            node = build_node(config, peer_id, environment, network, policy)
            stack.callback(node.generator.close)
            telemetry = stack.enter_context(_telemetry(home, config, console, progress))
            node = replace(node, watch=watcher(config, home, lambda text: telemetry.emit(Warned(text))))
            telemetry.emit(RunStarted(f"node {peer_id}", str(home), _facts(policy, node)))
            if not all((layers := sandbox.layers()).values()):
                telemetry.emit(Warned(sandbox.describe(layers)))
            validation = Validation(config, environment, node.generator, kept.best_reward)
            stack.callback(validation.close)
            kept.restore(node, telemetry)
            stop.updating = lambda: isinstance(node.trainer, GrpoTrainer) and node.trainer.updating
            runner = stack.enter_context(
                driving(
                    both,
                    node,
                    policy,
                    home / "generator.log",
                    lambda text: telemetry.emit(Warned(text)),
                    done=kept.done,
                    waiting=kept.waiting,
                    max_rounds=config.max_rounds,
                )
            )
            keeper = Keeper(config, node, policy, telemetry)
            Session(runner, keeper, validation, network, stop, telemetry, kept.done).run(config.max_rounds)


@dataclass
class Session:
    """A node at work: its rounds one after the other, and what is said and kept of them."""

    runner: Runner
    keeper: Keeper
    validation: Validation
    network: RemoteNetwork
    stop: Stop
    telemetry: Telemetry
    done: int  # rounds, those of earlier runs included

    def run(self, max_rounds: int) -> None:
        """Until it is told to stop, or, unless that is 0, `max_rounds` are done."""
        start = self.done
        self._pass_on()
        while not self.stop.wanted and (not max_rounds or self.done < max_rounds):
            try:
                with self.stop.interruptible():
                    report = self.runner.run_round(Round(self.done))
            except Interrupted:
                self._give_up(start)
                return
            self.telemetry.emit(RoundDone(report, self.network.connected))
            self._pass_on()
            self.done += 1
            if self.validation.due(self.done):
                self._validate()
            if self.keeper.due(self.done):
                self.keeper.save(self.done, self.runner.waiting())
        if self.done > start:
            self.keeper.save(self.done, self.runner.waiting())
        self.telemetry.emit(RunFinished(f"stopped after {self.done} rounds"))

    def _validate(self) -> None:
        with suppress(Interrupted):
            with self.stop.interruptible():
                measured = self.validation.measure(self.done)
            self.telemetry.emit(measured)
            if measured.best:
                self.keeper.keep_best(measured)

    def _give_up(self, start: int) -> None:
        """In the middle of a round, which is done again next time, what was written for it included."""
        if self.stop.updating():
            lost = "stopped in the middle of an update: what was learned since the last checkpoint is lost"
            self.telemetry.emit(Warned(lost))
        elif self.done > start:
            self.keeper.save(self.done, [])
        self.telemetry.emit(RunFinished(f"stopped after {self.done} rounds, in the middle of the next"))

    def _pass_on(self) -> None:
        """What the network wants the user to know."""
        for text, warning in self.network.lines():
            shown = printable(text, LINE_CHARS)
            self.telemetry.emit(Warned(shown) if warning else Notice(shown))


@contextmanager
def _telemetry(home: Path, config: NodeConfig, console: Console, progress: RecentRounds) -> Iterator[Telemetry]:
    """To the terminal, the home folder and whoever asks. A folder that cannot be written costs its files, no more."""
    sinks: list[Sink] = [node_terminal(console), progress]
    warn = partial(say, console)
    try:
        write_manifest(home / "manifest.json", manifest("node", config, [config.seed]) | {"origins": _origins(config)})
        sinks.append(JsonLines(home / "events.jsonl", warn))
        sinks += build_trackers(config.tracking, home, warn)
        trouble = ""
    except OSError as error:
        trouble = f"{home} cannot be written: {error.strerror}; training goes on, make room there"
    with Telemetry(sinks) as telemetry:
        if trouble:
            telemetry.emit(Warned(trouble))
        yield telemetry


def _origins(config: NodeConfig) -> dict[str, str]:
    """Where options come from, by name: "file", "environment" or "flag". Empty where a program made the configuration,
    as a simulation does."""
    argv = sys.argv[2:] if sys.argv[1:2] == ["run"] else sys.argv[1:]
    with suppress(UserError, OSError):
        return origins(values_of(config), file_in(argv))
    return {}


def _facts(policy: Policy, node: Node) -> dict[str, str]:
    parameters = sum(p.numel() for p in policy.model.parameters())
    packing = getattr(node.trainer, "packing", None)
    decoder = getattr(node.generator, "decoder_name", "")
    return {
        "model": f"{Path(policy.name).name} ({parameters / 1e6:.1f} M)",
        "device": str(policy.device),
        "rows": packing.value if packing else "padded",
        "decoder": decoder,
        "linear layers": policy.arithmetic,
    }
