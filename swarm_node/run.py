"""`swarm-node run`: one node, from its home folder, until it is told to stop.

The home folder holds everything: identity, checkpoints, events and manifest. Starting again in the same home goes on
exactly where the last checkpoint was taken.
"""

import fcntl
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console

from protocol.identity import Identity
from protocol.messages import Round
from swarm_node.asynchronous.assembly import driving, trainer_side
from swarm_node.asynchronous.node import AsynchronousNode
from swarm_node.build import build_environment, build_node, build_policy
from swarm_node.compute import checkpoint
from swarm_node.compute.policy import Policy
from swarm_node.compute.trainer import GrpoTrainer
from swarm_node.config import NodeConfig
from swarm_node.errors import UserError
from swarm_node.network.alone import Alone
from swarm_node.network.keyfile import KeyFileError, load_or_create
from swarm_node.node import Node
from swarm_node.telemetry.events import CheckpointSaved, Notice, RoundDone, RunFinished, RunStarted, Validated, Warned
from swarm_node.telemetry.jsonlines import JsonLines
from swarm_node.telemetry.manifest import manifest, write_manifest
from swarm_node.telemetry.sinks import Telemetry
from swarm_node.telemetry.terminal import node_terminal, say
from swarm_node.validation import REWARD, Validation, best_so_far

KEY_FILE = "identity.key"


class Stop:
    """Set by the first Ctrl-C or SIGTERM: the round in progress ends, a checkpoint is written. A second interrupts."""

    def __init__(self) -> None:
        self.wanted = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.wanted:
            raise KeyboardInterrupt
        self.wanted = True


def run(config: NodeConfig, console: Console) -> None:
    """Train until `max_rounds`, or until interrupted."""
    home = config.home.expanduser()
    with _owned(home), _stoppable() as stop:
        identity = load_identity(home)
        checkpoints = home / "checkpoints"
        latest = next(reversed(checkpoint.all_checkpoints(checkpoints)), None)
        state = _resumable(latest, config) if latest else None
        both, config = config, trainer_side(config)
        policy = build_policy(config.model, latest)
        environment = build_environment(config)
        try:
            node = build_node(_without_peers(config), identity.peer_id, environment, Alone(), policy)
            write_manifest(home / "manifest.json", manifest("node", config, [config.seed]))
            sinks = [JsonLines(home / "events.jsonl", lambda text: say(console, text)), node_terminal(console)]
            with Telemetry(sinks) as telemetry:
                telemetry.emit(RunStarted(f"node {identity.peer_id}", str(home), _facts(policy, node)))
                start = _restore(node, latest, state, telemetry) if latest and state else 0
                with driving(
                    both,
                    node,
                    policy,
                    home / "generator.log",
                    lambda text: telemetry.emit(Warned(text)),
                    done=start,
                    waiting=state["extra"].get("waiting", ()) if state else (),
                    max_rounds=config.max_rounds,
                ) as driver:
                    _loop(config, driver, node, policy, start, stop, telemetry)
        finally:
            environment.close()


def load_identity(home: Path) -> Identity:
    """The identity of this home, made the first time."""
    try:
        return load_or_create(home / KEY_FILE)
    except KeyFileError as error:
        raise UserError(str(error)) from error


def _loop(
    config: NodeConfig,
    driver: Node | AsynchronousNode,
    node: Node,
    policy: Policy,
    start: int,
    stop: Stop,
    telemetry: Telemetry,
) -> None:
    done = start

    best = config.home.expanduser() / "best"
    validation = Validation(config.validation, node.environment, node.generator, best_so_far(best))

    def save() -> None:
        waiting = driver.waiting() if isinstance(driver, AsynchronousNode) else []
        _save(config, node, policy, done, telemetry, waiting)

    while not stop.wanted and (not config.max_rounds or done < config.max_rounds):
        telemetry.emit(RoundDone(driver.run_round(Round(done))))
        done += 1
        if validation.due(done):
            measured = validation.measure(done)
            telemetry.emit(measured)
            if measured.best:
                _keep_best(best, measured, config, node, policy, telemetry)
        if done % config.checkpoint.every == 0:
            save()
    if done > start:
        save()
    telemetry.emit(RunFinished(f"stopped after {done} rounds"))


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


def _without_peers(config: NodeConfig) -> NodeConfig:
    """Until there is a network to hear others by, own groups take the place of theirs."""
    both = config.round.local_groups + config.round.external_groups
    return config.model_copy(
        update={"round": config.round.model_copy(update={"local_groups": both, "external_groups": 0})}
    )


def _facts(policy: Policy, node: Node) -> dict[str, str]:
    parameters = sum(p.numel() for p in policy.model.parameters())
    layout = "packed" if getattr(node.trainer, "packed", False) else "padded"
    decoder = getattr(node.generator, "decoder_name", "")
    return {
        "model": f"{Path(policy.name).name} ({parameters / 1e6:.1f} M)",
        "device": str(policy.device),
        "rows": layout,
        "decoder": decoder,
    }


@contextmanager
def _owned(home: Path) -> Iterator[None]:
    """The home belongs to one process at a time; the lock goes away with the process, however it ends."""
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(home / "lock", os.O_CREAT | os.O_RDWR, 0o600)
    except OSError as error:
        raise UserError(f"home {home}: {error.strerror}; choose another with --home") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UserError(f"another node runs in {home}: stop it, or choose another --home") from error
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _stoppable() -> Iterator[Stop]:
    stop = Stop()
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
