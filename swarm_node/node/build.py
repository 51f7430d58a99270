"""Makes a node of its configuration and runs it, in a home folder. Loads torch: commands/run.py comes first.

The home folder holds everything: identity, checkpoints, events and manifest. Starting again in the same home goes on
exactly where the last checkpoint was taken.
"""

from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from protocol.messages import PeerId
from swarm_node.environments.scored import Mixture
from swarm_node.network.client import RemoteNetwork
from swarm_node.node.asynchronous import driving, trainer_side
from swarm_node.node.checkpoints import Keeper, Kept
from swarm_node.node.evaluation import Validation
from swarm_node.node.external import scoring_ahead
from swarm_node.node.guest import Guest, Traffic
from swarm_node.node.introduction import facts, warn
from swarm_node.node.learner import build_node
from swarm_node.node.loop import Session
from swarm_node.node.ranks import count_ranks, lead
from swarm_node.node.round import Node
from swarm_node.node.stopping import Interrupted, stoppable
from swarm_node.policy.device import limit_gpu_memory
from swarm_node.policy.loading import configured_policy
from swarm_node.policy.memory_plan import fitted
from swarm_node.policy.plan import Plan
from swarm_node.policy.policy import Policy
from swarm_node.policy.tried import FILE as TRIED
from swarm_node.policy.tried import Tried
from swarm_node.rollouts.interfaces import Runner
from swarm_node.settings import NodeConfig
from swarm_node.telemetry.events import RunStarted, Telemetry, Trained, Warned
from swarm_node.telemetry.manifest import keep_records
from swarm_node.telemetry.recent import RecentRounds
from swarm_node.telemetry.terminal import node_terminal


def work(
    config: NodeConfig,
    peer_id: PeerId,
    environment: Mixture,
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
        limit_gpu_memory(config.limits.memory, config.model.device)
        progress.note("limits", config.limits.model_dump(mode="json", exclude_defaults=True))
        kept = Kept(config)
        config = kept.pinned()
        tried = Tried(home / TRIED, kept.warnings.append)
        ranks = lead(config)
        both, config = config, trainer_side(config)

        plan: Plan | None = None

        def make(resume: Path | None) -> tuple[Policy, Node]:
            nonlocal config, plan
            policy = configured_policy(config, resume, tried)
            config, plan = fitted(config, policy, config.limits, ranks.state_shares if ranks else 1)
            return policy, build_node(config, peer_id, environment, network, policy, external=ahead, ranks=ranks)

        with ExitStack() as stack:
            ahead = stack.enter_context(scoring_ahead(config, peer_id)) if config.network.enabled else None
            policy, node = kept.build(make)
            if ranks:
                ranks.begin(config, policy, kept.latest)
            stack.callback(node.generator.close)
            view = node_terminal(console)
            stop.note = view.note
            telemetry.add(view)
            telemetry.add(progress)
            keep_records(telemetry, home, config)
            node = replace(node, watch=lambda selection: telemetry.emit(Trained(selection)))
            telemetry.emit(RunStarted(f"node {peer_id}", str(home), facts(policy, node, plan), kept.done))
            kept.tell(telemetry)
            warn(telemetry, config, plan)
            validation = Validation(config, environment, node.generator, kept.best_reward, kept.measured)
            stack.callback(validation.close)
            stop.updating = lambda: bool(getattr(node.trainer, "updating", False))
            runner = stack.enter_context(_driving(both, config, node, policy, telemetry, kept))
            keeper = Keeper(config, node, policy, telemetry, kept.measured)
            keeper.look()
            guest, traffic = Guest(config.limits, home), Traffic(home, config.limits.traffic)
            stack.callback(traffic.save)
            guests = (guest, traffic, progress)
            session = Session(runner, keeper, validation, network, stop, telemetry, *guests, kept.done)
            session.run(config.max_rounds)


def _driving(
    both: NodeConfig, config: NodeConfig, node: Node, policy: Policy, telemetry: Telemetry, kept: Kept
) -> AbstractContextManager[Runner]:
    """What runs the rounds: this process, or this one and a generator. `both`: as the user configured the two."""
    return driving(
        both,
        node,
        policy,
        config.home.expanduser() / "generator.log",
        lambda text: telemetry.emit(Warned(text)),
        done=kept.done,
        waiting=kept.waiting,
        max_rounds=config.max_rounds,
    )
