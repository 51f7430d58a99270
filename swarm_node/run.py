"""`swarm-node run`: one node, from its home folder, until it is told to stop.

The home folder holds everything: identity, checkpoints, events and manifest. Starting again in the same home goes on
exactly where the last checkpoint was taken.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Any

from rich.console import Console

from protocol.messages import Round
from swarm_node.asynchronous.assembly import driving, trainer_side
from swarm_node.asynchronous.node import AsynchronousNode
from swarm_node.build import build_environment, build_network, build_node, build_policy
from swarm_node.compute import checkpoint
from swarm_node.compute.policy import Policy
from swarm_node.compute.trainer import GrpoTrainer
from swarm_node.config import NodeConfig
from swarm_node.environment import sandbox
from swarm_node.errors import UserError
from swarm_node.home import load_identity, owned
from swarm_node.network.process.remote import RemoteNetwork
from swarm_node.node import Node
from swarm_node.printable import printable
from swarm_node.stopping import Interrupted, Stop, stoppable
from swarm_node.telemetry.events import CheckpointSaved, Notice, RoundDone, RunFinished, RunStarted, Validated, Warned
from swarm_node.telemetry.jsonlines import JsonLines
from swarm_node.telemetry.manifest import manifest, write_manifest
from swarm_node.telemetry.progress import Progress
from swarm_node.telemetry.sinks import Sink, Telemetry
from swarm_node.telemetry.terminal import node_terminal, say
from swarm_node.validation import REWARD, Validation, best_so_far

LINE_CHARS = 400  # of what the network says


def run(config: NodeConfig, console: Console) -> None:
    """Train until `max_rounds`, or until interrupted."""
    home = config.home.expanduser()
    # Until the first round has ended there is nothing to lose: whoever wants the node to stop need not wait.
    with owned(home), stoppable() as stop, suppress(Interrupted), stop.interruptible():
        identity = load_identity(home)
        checkpoints = home / "checkpoints"
        latest = next(reversed(checkpoint.all_checkpoints(checkpoints)), None)
        state = _resumable(latest, config) if latest else None
        both, config = config, trainer_side(config)
        with ExitStack() as stack:
            environment = build_environment(config)
            stack.callback(environment.close)
            progress = Progress(monotonic)
            network = build_network(config, identity, environment, progress.facts)
            network.start()  # first, so that others are found while the policy loads
            stack.callback(network.close)
            policy = build_policy(config.model, latest)
            node = build_node(config, identity.peer_id, environment, network, policy)
            telemetry = stack.enter_context(_telemetry(home, config, console, progress))
            telemetry.emit(RunStarted(f"node {identity.peer_id}", str(home), _facts(policy, node)))
            if not all((layers := sandbox.layers()).values()):
                telemetry.emit(Warned(sandbox.describe(layers)))
            validation = Validation(config, environment, node.generator, best_so_far(home / "best"))
            stack.callback(validation.close)
            start = _restore(node, latest, state, telemetry) if latest and state else 0
            driver = stack.enter_context(
                driving(
                    both,
                    node,
                    policy,
                    home / "generator.log",
                    lambda text: telemetry.emit(Warned(text)),
                    done=start,
                    waiting=state["extra"].get("waiting", ()) if state else (),
                    max_rounds=config.max_rounds,
                )
            )
            _loop(config, driver, node, network, policy, validation, start, stop, telemetry)


@contextmanager
def _telemetry(home: Path, config: NodeConfig, console: Console, progress: Progress) -> Iterator[Telemetry]:
    """To the terminal, the home folder and whoever asks. A folder that cannot be written costs its files, no more."""
    sinks: list[Sink] = [node_terminal(console), progress]
    try:
        write_manifest(home / "manifest.json", manifest("node", config, [config.seed]))
        sinks.append(JsonLines(home / "events.jsonl", lambda text: say(console, text)))
        trouble = ""
    except OSError as error:
        trouble = f"{home} cannot be written: {error.strerror}; training goes on, make room there"
    with Telemetry(sinks) as telemetry:
        if trouble:
            telemetry.emit(Warned(trouble))
        yield telemetry


def _loop(
    config: NodeConfig,
    driver: Node | AsynchronousNode,
    node: Node,
    network: RemoteNetwork,
    policy: Policy,
    validation: Validation,
    start: int,
    stop: Stop,
    telemetry: Telemetry,
) -> None:
    done = start
    stop.updating = lambda: isinstance(node.trainer, GrpoTrainer) and node.trainer.updating

    best = config.home.expanduser() / "best"

    def save(waiting: list[str]) -> None:
        _save(config, node, policy, done, telemetry, waiting)

    def waiting() -> list[str]:
        return driver.waiting() if isinstance(driver, AsynchronousNode) else []

    _pass_on(network, telemetry)
    while not stop.wanted and (not config.max_rounds or done < config.max_rounds):
        try:
            with stop.interruptible():
                report = driver.run_round(Round(done))
        except Interrupted:
            _leave(done, start, stop, telemetry, save)
            return
        telemetry.emit(RoundDone(report, network.connected))
        _pass_on(network, telemetry)
        done += 1
        if validation.due(done):
            with suppress(Interrupted):
                with stop.interruptible():
                    measured = validation.measure(done)
                telemetry.emit(measured)
                if measured.best:
                    _keep_best(best, measured, config, node, policy, telemetry)
        if done % config.checkpoint.every == 0:
            save(waiting())
    if done > start:
        save(waiting())
    telemetry.emit(RunFinished(f"stopped after {done} rounds"))


def _leave(done: int, start: int, stop: Stop, telemetry: Telemetry, save: Callable[[list[str]], None]) -> None:
    """In the middle of a round, which is given up and done again next time, what was written for it included."""
    if stop.updating():
        telemetry.emit(Warned("stopped in the middle of an update: what was learned since the last checkpoint is lost"))
    elif done > start:
        save([])
    telemetry.emit(RunFinished(f"stopped after {done} rounds, in the middle of the next"))


def _pass_on(network: RemoteNetwork, telemetry: Telemetry) -> None:
    """What the network wants the user to know."""
    for text, warning in network.lines():
        shown = printable(text, LINE_CHARS)
        telemetry.emit(Warned(shown) if warning else Notice(shown))


def _save(config: NodeConfig, node: Node, policy: Policy, done: int, telemetry: Telemetry, waiting: list[str]) -> None:
    """A failed checkpoint is a warning: training goes on, the older checkpoints are whole, the next one may succeed."""
    assert isinstance(node.trainer, GrpoTrainer)
    extra = {
        "peer_id": node.peer_id,
        "model": config.model.model_dump(mode="json"),
        "pool": node.pool.snapshot(),
        "defence": node.defence.snapshot(),
        "waiting": waiting,
    }
    folder = config.home.expanduser() / "checkpoints"
    try:
        path = checkpoint.save(folder, done, policy, node.trainer, extra, config.checkpoint.keep)
    except OSError as error:
        telemetry.emit(Warned(f"no checkpoint after {done} rounds: {error}; training goes on, the last one is kept"))
    else:
        telemetry.emit(CheckpointSaved(done, str(path)))


def _keep_best(
    folder: Path, measured: Validated, config: NodeConfig, node: Node, policy: Policy, telemetry: Telemetry
) -> None:
    assert isinstance(node.trainer, GrpoTrainer)
    extra = {"peer_id": node.peer_id, "model": config.model.model_dump(mode="json"), REWARD: measured.reward}
    try:
        path = checkpoint.save(folder, measured.round, policy, node.trainer, extra, keep=1)
    except OSError as error:
        telemetry.emit(Warned(f"the best checkpoint so far was not kept: {error}"))
    else:
        telemetry.emit(CheckpointSaved(measured.round, str(path)))


def _resumable(latest: Path, config: NodeConfig) -> dict[str, Any]:
    """The state of the checkpoint, if it is of the configured model."""
    state = checkpoint.read_state(latest)
    earlier, wanted = state["extra"]["model"], config.model.model_dump(mode="json")
    for key in ("name", "lora"):
        if earlier[key] != wanted[key]:
            raise UserError(
                f"home {config.home} holds checkpoints of model.{key} {earlier[key]!r}, not {wanted[key]!r}: "
                "choose another --home, or move its checkpoints away"
            )
    return state


def _restore(node: Node, latest: Path, state: dict[str, Any], telemetry: Telemetry) -> int:
    assert isinstance(node.trainer, GrpoTrainer)
    checkpoint.restore_trainer(latest, node.trainer)
    node.pool.restore(state["extra"]["pool"])
    node.defence.restore(state["extra"].get("defence", {}))
    telemetry.emit(Notice(f"resumed after {state['rounds']} rounds from {latest}"))
    return int(state["rounds"])


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
