"""One node at work, from its home folder, until it is told to stop. Loads torch: start.py comes first.

The home folder holds everything: identity, checkpoints, events and manifest. Starting again in the same home goes on
exactly where the last checkpoint was taken.
"""

from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from time import sleep

from rich.console import Console

from protocol.messages import PeerId, Round
from swarm_node.common.errors import UserError
from swarm_node.common.printable import printable
from swarm_node.environments.registry import leaving
from swarm_node.network.client import RemoteNetwork
from swarm_node.node.beside import driving, trainer_side
from swarm_node.node.checkpoints import Keeper, Kept
from swarm_node.node.evaluation import Validation
from swarm_node.node.external import scoring_ahead
from swarm_node.node.guest import Guest
from swarm_node.node.learner import build_node, build_policy
from swarm_node.node.round import Node
from swarm_node.node.stopping import Interrupted, Stop, stoppable
from swarm_node.node.traffic import Traffic
from swarm_node.policy.gpu_limit import limit_gpu_memory
from swarm_node.policy.memory_plan import fitted
from swarm_node.policy.plan import Plan, amount
from swarm_node.policy.policy import Policy
from swarm_node.policy.ranks import count_ranks, lead
from swarm_node.policy.tried import FILE as TRIED
from swarm_node.policy.tried import Tried
from swarm_node.rollouts.interfaces import Environment, Runner
from swarm_node.scoring import sandbox
from swarm_node.settings import NodeConfig
from swarm_node.telemetry.events import Listening, Notice, Resting, RoundDone, RunFinished, RunStarted, Trained, Warned
from swarm_node.telemetry.recent import RecentRounds
from swarm_node.telemetry.records import keep_records
from swarm_node.telemetry.sinks import Telemetry
from swarm_node.telemetry.terminal import node_terminal
from swarm_node.training.trainer import GrpoTrainer

LINE_CHARS = 400  # of what the network says
REST_SECONDS = 0.5  # between two looks whether to go on


def work(
    config: NodeConfig,
    peer_id: PeerId,
    environment: Environment,
    network: RemoteNetwork,
    telemetry: Telemetry,
    progress: RecentRounds,
    console: Console,
) -> None:
    """Train until `max_rounds`, or until interrupted. The caller owns the home, and closes environment, network and
    telemetry."""
    home = config.home.expanduser()
    # Until the first round has ended there is nothing to lose: whoever wants the node to stop need not wait.
    with stoppable(hurried=count_ranks() > 1) as stop, suppress(Interrupted), stop.interruptible():
        limit_gpu_memory(config.limits.gpu_memory, config.model.device)
        progress.note("limits", config.limits.model_dump(mode="json", exclude_defaults=True))
        kept = Kept(config)
        config = kept.pinned()
        tried = Tried(home / TRIED, kept.warnings.append)
        ranks = lead(config)
        both, config = config, trainer_side(config)

        plan: Plan | None = None

        def make(resume: Path | None) -> tuple[Policy, Node]:
            nonlocal config, plan
            policy = build_policy(config.model, resume, tried)
            config, plan = fitted(config, policy, config.limits)
            return policy, build_node(config, peer_id, environment, network, policy, external=ahead, ranks=ranks)

        with ExitStack() as stack:
            ahead = stack.enter_context(scoring_ahead(config, peer_id)) if config.network.enabled else None
            policy, node = kept.build(make)
            ranks.begin(config, policy, kept.latest)
            stack.callback(node.generator.close)
            view = node_terminal(console)
            stop.note = view.note
            telemetry.add(view)
            telemetry.add(progress)
            keep_records(telemetry, home, config)
            node = replace(node, watch=lambda selection: telemetry.emit(Trained(selection)))
            telemetry.emit(RunStarted(f"node {peer_id}", str(home), _facts(policy, node, plan), kept.done))
            kept.tell(telemetry)
            if plan and not plan.fits:
                telemetry.emit(Warned(plan.lines()[0]))
            if told := leaving(config.environment):
                telemetry.emit(Notice(told))
            if not all((layers := sandbox.layers()).values()):
                telemetry.emit(Warned(sandbox.describe(layers)))
            validation = Validation(config, environment, node.generator, kept.best_reward)
            stack.callback(validation.close)
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
            telemetry.add(keeper)
            keeper.look()
            guest, traffic = Guest(config.limits, home), Traffic(home, config.limits.traffic)
            stack.callback(traffic.save)
            guests = (guest, traffic, progress)
            session = Session(runner, keeper, validation, network, stop, telemetry, *guests, kept.done)
            session.run(config.max_rounds)


@dataclass
class Session:
    """A node at work: its rounds one after the other, and what is said and kept of them."""

    runner: Runner
    keeper: Keeper
    validation: Validation
    network: RemoteNetwork
    stop: Stop
    telemetry: Telemetry
    guest: Guest
    traffic: Traffic
    progress: RecentRounds
    done: int  # rounds, those of earlier runs included
    pause: Callable[[float], None] = sleep
    addresses: tuple[str, ...] = ()  # as they were last said
    capped: bool = False  # whether the traffic of this month is used up

    def run(self, max_rounds: int) -> None:
        """Until it is told to stop, or, unless that is 0, `max_rounds` are done."""
        start = self.done
        self._pass_on()
        while not self.stop.wanted and (not max_rounds or self.done < max_rounds):
            if reason := self.guest.resting():
                self._rest(reason)
                continue
            try:
                with self.stop.interruptible():
                    report = self.runner.run_round(Round(self.done))
                    self.done, self.stop.to_save = self.done + 1, True  # before anybody is told of the round
            except Interrupted:
                self._give_up(start)
                return
            alone = "" if report.external_informative else self.network.why_alone()
            self.telemetry.emit(RoundDone(report, self.network.connected, self.network.waiting, alone))
            self._pass_on()
            if self.validation.due(self.done):
                self._validate()
            if self.keeper.due(self.done):
                self.keeper.save(self.done, self.runner.waiting())
        if self.done > start:
            self._save_last(self.runner.waiting())
        self.telemetry.emit(RunFinished(f"stopped after {self.done} rounds"))

    def _validate(self) -> None:
        with suppress(Interrupted):
            with self.stop.interruptible():
                measured = self.validation.measure(self.done)
            self.telemetry.emit(measured)
            if measured.best:
                self.keeper.keep_best(measured)

    def _give_up(self, start: int) -> None:
        """In the middle of a round, which is done again next time, generation included."""
        if self.stop.updating():
            lost = "stopped in the middle of an update: what was learned since the last checkpoint is lost"
            self.telemetry.emit(Warned(lost))
        elif self.done > start:
            self._save_last([])
        self.telemetry.emit(RunFinished(f"stopped after {self.done} rounds, in the middle of the next"))

    def _count(self) -> None:
        """Leaves the swarm when the traffic of this month is used up, and comes back in the next."""
        exceeded = self.traffic.exceeded(self.network.traffic)
        self.progress.note("traffic_megabytes", self.traffic.megabytes)
        if exceeded != self.capped:
            self.capped = exceeded
            self.network.rest(exceeded)
            how = "reached: training alone until the next month" if exceeded else "begins anew: sharing again"
            self.telemetry.emit(Warned(f"limit of this month's traffic {how}"))

    def _save_last(self, waiting: list[str]) -> None:
        """UserError where it fails: nothing of the next run would make up for it."""
        self.telemetry.emit(Notice("saving ..."))
        if failed := self.keeper.save(self.done, waiting):
            raise UserError(f"the last checkpoint could not be written ({failed}): make room, the one before is whole")

    def _rest(self, reason: str) -> None:
        """Until the reason is gone: no training, and no traffic. It is told to stop meanwhile as at any time."""
        self.telemetry.emit(Resting(reason))
        self.network.rest(True)
        while reason and not self.stop.wanted:
            self.pause(REST_SECONDS)
            reason = self.guest.resting()
        self.network.rest(self.capped)
        self.telemetry.emit(Resting(""))

    def _pass_on(self) -> None:
        """What the network wants the user to know."""
        if self.network.addresses != self.addresses:
            self.addresses = self.network.addresses
            self.telemetry.emit(Listening(self.addresses))
        self._count()
        for text, warning in self.network.lines():
            shown = printable(text, LINE_CHARS)
            self.telemetry.emit(Warned(shown) if warning else Notice(shown))


def _facts(policy: Policy, node: Node, plan: Plan | None) -> dict[str, str]:
    parameters = sum(p.numel() for p in policy.model.parameters())
    packing = getattr(node.trainer, "packing", None)
    decoder = getattr(node.generator, "decoder_name", "")
    return {
        "model": f"{Path(policy.name).name} ({parameters / 1e6:.1f} M)",
        "device": str(policy.device),
        "rows": packing.value if packing else "padded",
        "decoder": decoder,
        "linear layers": policy.arithmetic,
        "memory": f"about {amount(plan.total)} of {amount(plan.room)}" if plan else "",
    }
