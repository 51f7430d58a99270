"""Makes a node from its configuration and runs it, in a home folder. Loads torch: commands/run.py
comes first.

The home folder holds everything: identity, checkpoints, events and manifest. A start in the same
home goes on exactly where the last checkpoint was taken.
"""

from contextlib import ExitStack, nullcontext, suppress
from dataclasses import replace
from functools import partial
from time import monotonic

from rich.console import Console

from protocol.messages import PeerId
from swarm_node.environments.scored import Mixture
from swarm_node.network.client import RemoteNetwork
from swarm_node.node.asynchronous import driving, trainer_side
from swarm_node.node.card_use import watch_of
from swarm_node.node.checkpoints import CheckpointWriter, Kept
from swarm_node.node.evaluation import Validation
from swarm_node.node.guest import Guest, Traffic
from swarm_node.node.learner import Learner, build_learner, scoring_ahead, set_aside
from swarm_node.node.loop import Session
from swarm_node.node.parallel import LOG, config_of_process, devices_of, with_workers
from swarm_node.node.practice import Practice
from swarm_node.node.round import Node
from swarm_node.node.stopping import Interrupted, stoppable
from swarm_node.policy import named
from swarm_node.policy.device import limit_gpu_memory
from swarm_node.policy.hardware import uuid_of
from swarm_node.policy.tried import FILE, Tried
from swarm_node.rollouts.groups import Selection
from swarm_node.scoring import sandbox
from swarm_node.settings import NodeConfig
from swarm_node.telemetry.events import Notice, RunStarted, Telemetry, Trained, Warned
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
    """Train until `max_rounds`, or until interrupted. The caller owns the home, and closes
    environment, network and telemetry.
    """
    home = config.home.expanduser()
    # Until the first round has ended there is nothing to lose: a user who stops the node need not
    # wait.
    with stoppable(config.limits.stop_seconds) as stop, suppress(Interrupted), stop.interruptible():
        progress.note("limits", config.limits.model_dump(mode="json", exclude_defaults=True))
        progress.note("model", named.described(config.model.name))
        kept = Kept(config)
        as_asked = kept.pinned()
        devices = devices_of(as_asked)
        config = config_of_process(trainer_side(as_asked), devices, 0)
        limit_gpu_memory(config.limits.memory, config.model.device)
        tried = Tried(home / FILE, kept.warnings.append)
        with ExitStack() as stack:
            sharing = (
                scoring_ahead(config, peer_id, progress.note)
                if config.network.enabled
                else nullcontext()
            )
            ahead = stack.enter_context(sharing)
            build = partial(build_learner, config, peer_id, environment, network)
            learner = kept.build(lambda resume: build(resume=resume, tried=tried, external=ahead))
            config, policy = learner.config, learner.policy
            view = node_terminal(console)
            stop.note = view.note
            telemetry.add(view)
            telemetry.add(progress)
            keep_records(telemetry, home, config, named.described(config.model.name))
            warned = partial(_warned, telemetry)
            learner = stack.enter_context(with_workers(devices, learner, home / LOG, warned))
            node = learner.node
            stack.callback(node.generator.close)
            telemetry.emit(RunStarted(f"node {peer_id}", str(home), learner.facts(), kept.done))
            kept.tell(telemetry)
            warn(telemetry, learner, environment)
            validation = Validation(
                config, environment, node.generator, kept.best_reward, kept.measured
            )
            stack.callback(validation.close)
            node = replace(node, watch=lambda selection: telemetry.emit(Trained(selection)))
            practice = None
            if config.environment.choose:
                practice = Practice(config, peer_id, kept.curriculum, telemetry, progress.note)
                node = choosing(node, environment, practice, validation)
            trainer = node.trainer
            stop.stepping, stop.counted = lambda: trainer.stepping, trainer.settle
            runner = stack.enter_context(
                driving(
                    as_asked,
                    node,
                    policy,
                    home / "generator.log",
                    warned,
                    kept.done,
                    kept.waiting,
                    config.max_rounds,
                    plan=practice.tasks if practice else None,
                )
            )
            keeper = CheckpointWriter(
                config, node, policy, telemetry, kept.measured, monotonic, practice
            )
            stop.saving = lambda: keeper.seconds
            keeper.look()
            card = watch_of(config.limits, uuid_of(policy.device), monotonic, warned)
            guest = Guest(config.limits, home, card=card)
            traffic = Traffic(home, config.limits.traffic)
            stack.callback(traffic.save)
            watched = runner, keeper, validation, network, stop, telemetry, guest, traffic, progress
            aside = set_aside(as_asked, node, policy)
            session = Session(*watched, kept.done, aside=aside, compare=learner.compare)
            session.run(config.max_rounds)


def _warned(telemetry: Telemetry, text: str) -> None:
    telemetry.emit(Warned(text))


def choosing(node: Node, environment: Mixture, practice: Practice, validation: Validation) -> Node:
    """Returns the node, which from now on practises the tasks that `practice` chooses. Each is
    validated before it is trained on for the first time.
    """
    watch = node.watch

    def foresee(selection: Selection) -> None:
        validation.begin(practice.trained(selection))

    def learn(selection: Selection) -> None:
        if watch is not None:
            watch(selection)
        practice.learn(selection)

    environment.chooser = practice.tasks
    return replace(node, foresee=foresee, watch=learn)


def warn(telemetry: Telemetry, learner: Learner, environment: Mixture) -> None:
    """Says what the user should know before the first round."""
    for warning, text in environment.notes:
        telemetry.emit((Warned if warning else Notice)(text))
    if learner.plan and not learner.plan.fits:
        telemetry.emit(Warned(learner.plan.lines()[0]))
    if not all((layers := sandbox.layers()).values()):
        telemetry.emit(Warned(sandbox.describe(layers)))
