"""One node of genrl 0.3.0's exchange alone: its all-gather over hivemind, without model or training.

    python genrl_gather.py '{"rank": 0, "nodes": 8, "rounds": 3, "bytes": 90000, "work": "..."}'

Run by lab/benchmarks/network.py, by an interpreter that has genrl. What is done to genrl from outside: hivemind 1.1.12
moved `get_dht_time`; daemons stay on loopback; and hivemind's loop is asyncio's own: uvloop makes the pipe to its
process non-blocking, so that the first value above 16 KB kills that process and nothing could be measured. Rounds are
kept in step by files, so that nobody waits inside them.
"""

import asyncio
import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

SETTINGS = json.loads(sys.argv[1])
WORK, RANK, NODES = Path(SETTINGS["work"]), SETTINGS["rank"], SETTINGS["nodes"]
os.environ["HIVEMIND_WORLD_SIZE"] = str(NODES)

import hivemind  # noqa: E402
import hivemind.dht.dht  # noqa: E402
from hivemind.utils.timed_storage import get_dht_time  # noqa: E402

hivemind.get_dht_time = get_dht_time


def plain_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    return loop


hivemind.dht.dht.switch_to_uvloop = plain_loop

import genrl.communication.hivemind.hivemind_backend as backend  # noqa: E402


def on_loopback(**options: Any) -> Any:
    return hivemind.DHT(**{**options, "host_maddrs": ["/ip4/127.0.0.1/tcp/0"]})


def rendezvous(name: str) -> None:
    """Wait until every node has come this far."""
    (WORK / f"{name}.{RANK}").touch()
    while len(list(WORK.glob(f"{name}.*"))) < NODES:
        time.sleep(0.05)


def main() -> None:
    backend.DHT = on_loopback
    backend.HivemindRendezvouz.init(is_master=RANK == 0)
    entry = WORK / "entry.json"
    while RANK and not entry.exists():
        time.sleep(0.05)
    peers = json.loads(entry.read_text()) if RANK else None
    exchange = backend.HivemindBackend(initial_peers=peers, timeout=120, startup_timeout=120)
    if RANK == 0:
        (WORK / "entry.tmp").write_text(json.dumps([str(address) for address in exchange.dht.get_visible_maddrs()]))
        (WORK / "entry.tmp").rename(entry)
    rng = random.Random(RANK)
    for number in range(SETTINGS["rounds"]):
        rendezvous(f"round{number}")
        start = time.monotonic()
        received = exchange.all_gather_object(rng.randbytes(SETTINGS["bytes"]))
        rendezvous(f"end{number}")
        record = {"round": number, "received": len(received) - 1, "seconds": time.monotonic() - start}
        (WORK / f"report{number}.{RANK}.json").write_text(json.dumps(record))
    rendezvous("done")
    os._exit(0)  # hivemind's processes are ended by whoever started this one


if __name__ == "__main__":
    main()
