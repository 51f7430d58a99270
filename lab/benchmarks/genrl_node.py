"""One node of genrl 0.3.0's reasoning-gym example, timed. Run by lab/benchmarks/swarm.py, by an interpreter that has
genrl.

    python genrl_node.py '{"rank": 0, ...}'

genrl is left as it is but for what makes it work at all, done from outside. hivemind 1.1.12 moved `get_dht_time`. genrl
subscripts a dataclass when it reads what it received, so that as shipped every exchange fails and nothing is shared.
Starters generate no `<answer>` tags: all rewards would be zero, and genrl would skip training. A scorer that raises on
a malformed answer, as reasoning-gym's do, ends the whole game. Here such an answer scores zero. And daemons stay on
loopback. This file knows nothing of swarm_node, since genrl may live in another environment.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SETTINGS = json.loads(sys.argv[1])
WORK = Path(SETTINGS["work"])
RANK = SETTINGS["rank"]
os.environ["HIVEMIND_WORLD_SIZE"] = str(SETTINGS["nodes"])
os.environ["HF_DATASETS_CACHE"] = str(WORK / f"datasets{RANK}")
os.environ["HF_DATASETS_DISABLE_PROGRESS_BARS"] = "1"

import hivemind  # noqa: E402
import psutil  # noqa: E402
import torch  # noqa: E402
from hivemind.utils.timed_storage import get_dht_time  # noqa: E402

hivemind.get_dht_time = get_dht_time

import genrl.communication.hivemind.hivemind_backend as backend  # noqa: E402
from genrl.communication.communication import Communication, Payload  # noqa: E402
from genrl.examples.rgym import reward_utils  # noqa: E402
from genrl.examples.rgym.data import ReasoningGymDataManager  # noqa: E402
from genrl.examples.rgym.rewards import RGRewards  # noqa: E402
from genrl.game.game_manager import BaseGameManager  # noqa: E402
from genrl.rewards import DefaultRewardManager, RewardFnStore, RoundRewardFnStore  # noqa: E402
from genrl.state.game_state import GameState  # noqa: E402
from genrl.trainer.grpo_trainer import GRPOLanguageTrainerModule, GRPOTrainerConfig  # noqa: E402
from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: E402


class Clock:
    """Wall seconds by phase, of one round."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def time(self, owner: Any, method: str, phase: str) -> None:
        """Bill every call of `owner.method` to a phase."""
        inner: Callable[..., Any] = getattr(owner, method)

        def timed(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                return inner(*args, **kwargs)
            finally:
                self.seconds[phase] = self.seconds.get(phase, 0.0) + time.perf_counter() - start

        setattr(owner, method, timed)


def mend() -> None:
    Payload.__getitem__ = lambda self, key: getattr(self, key)
    reward_utils.extract_answer = lambda completion: completion.strip()
    score = reward_utils.score_answer

    def safe_score(*args: Any, **kwargs: Any) -> float:
        try:
            return float(score(*args, **kwargs))
        except Exception:  # noqa: BLE001  scorers of 90 data sets raise what they like
            return 0.0

    reward_utils.score_answer = safe_score


def listen_on_loopback() -> None:
    inner = backend.DHT
    backend.DHT = lambda **kwargs: inner(**{**kwargs, "host_maddrs": ["/ip4/127.0.0.1/tcp/0"]})


def join() -> Any:
    """hivemind's DHT: rank 0 starts it and leaves its addresses in a file."""
    addresses = WORK / "peers.json"
    backend.HivemindRendezvouz.init(is_master=RANK == 0)
    Communication.set_backend(backend.HivemindBackend)
    if RANK:
        wait_for(addresses)
    known = json.loads(addresses.read_text()) if RANK else None
    communication = backend.HivemindBackend(initial_peers=known, timeout=600, startup_timeout=120)
    if not RANK:
        partial = WORK / "peers.partial"
        partial.write_text(json.dumps([str(address) for address in communication.dht.get_visible_maddrs()]))
        partial.rename(addresses)
    return communication


def build(communication: Any, model: Any) -> BaseGameManager:
    tokenizer = AutoTokenizer.from_pretrained(SETTINGS["model"], padding_side="left")
    data = ReasoningGymDataManager(
        yaml_config_path=SETTINGS["datasets"],
        num_train_samples=SETTINGS["questions"],
        num_evaluation_samples=0,
        seed=RANK,
        num_transplant_trees=SETTINGS["external_groups"],
    )
    config = GRPOTrainerConfig(
        max_new_tokens=SETTINGS["new_tokens"],
        num_generations=SETTINGS["group_size"],
        learning_rate=SETTINGS["learning_rate"],
        minibatch_size=SETTINGS["minibatch_size"],
        enable_gradient_checkpointing=SETTINGS["gradient_checkpointing"],
    )
    trainer = GRPOLanguageTrainerModule(
        [model], config=config, processing_class=tokenizer, log_dir=str(WORK), log_with="none"
    )
    stores = [RoundRewardFnStore(num_stages=1, reward_fns=[RGRewards()])]
    rewards = DefaultRewardManager(RewardFnStore(max_rounds=10**6, reward_fn_stores=stores))
    return BaseGameManager(
        max_stage=1,
        max_round=SETTINGS["rounds"],
        game_state=GameState(round=0, stage=0),
        reward_manager=rewards,
        trainer=trainer,
        data_manager=data,
        communication=communication,
        run_mode="train",
    )


def timed_rounds(game: BaseGameManager, model: Any) -> None:
    """Writes one JSON line per round. What no phase covers (making questions) shows as the rest of the round."""
    clock = Clock()
    counts = {"tokens": 0, "received": 0, "steps": 0}
    clock.time(game.trainer, "generate", "generate")
    clock.time(game.communication, "all_gather_object", "exchange")
    clock.time(game.data_manager, "prepare_states", "score")
    clock.time(game.rewards, "update_rewards", "score")
    clock.time(game.trainer, "train", "train")
    generate, transplant, step = model.generate, game.data_manager.transplant_trees, game.trainer.optimizer.step
    pad = game.trainer.processing_class.pad_token_id

    def counted_generate(ids: Any, **kwargs: Any) -> Any:
        output = generate(ids, **kwargs)
        counts["tokens"] += int((output[:, ids.shape[1] :] != pad).sum())
        return output

    def counted_transplant(*args: Any) -> Any:
        chosen = transplant(*args)
        counts["received"] += len(chosen)
        return chosen

    def counted_step(*args: Any) -> Any:
        counts["steps"] += 1
        return step(*args)

    model.generate, game.data_manager.transplant_trees, game.trainer.optimizer.step = (
        counted_generate,
        counted_transplant,
        counted_step,
    )
    inner = game.run_game_round

    def run_game_round() -> None:
        clock.seconds = {}
        counts.update(tokens=0, received=0, steps=0)
        start, cpu = time.perf_counter(), cpu_seconds()
        inner()
        line = {"round": time.perf_counter() - start, "cpu": cpu_seconds() - cpu, "seconds": clock.seconds, **counts}
        with (WORK / f"rounds{RANK}.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")

    game.run_game_round = run_game_round


def cpu_seconds() -> float:
    """Of this process and its children: hivemind's DHT and its daemon."""
    me = psutil.Process()
    times = [process.cpu_times() for process in (me, *me.children(recursive=True))]
    return float(sum(t.user + t.system for t in times))


def wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.05)


def leave() -> None:
    """End with all children: hivemind's outlive a parent that just ends."""
    for child in psutil.Process().children(recursive=True):
        child.kill()
    os._exit(0)


def leave_with(parent: int) -> None:
    """Do not stay behind when the benchmark was killed."""
    while os.getppid() == parent:
        time.sleep(1.0)
    leave()


def main() -> None:
    threading.Thread(target=leave_with, args=(SETTINGS["parent"],), daemon=True).start()
    torch.set_num_threads(1)
    torch.manual_seed(RANK)
    mend()
    listen_on_loopback()
    model = AutoModelForCausalLM.from_pretrained(SETTINGS["model"])
    communication = join()
    game = build(communication, model)
    timed_rounds(game, model)
    (WORK / f"ready{RANK}").touch()
    wait_for(WORK / "go")
    game.run_game()
    (WORK / f"done{RANK}").touch()
    wait_for(WORK / "stop")  # others may still ask this node for what it stored
    leave()


if __name__ == "__main__":
    main()
