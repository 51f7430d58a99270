"""Starts a node and prints what it says of itself, one `name = value` a line.

    python watch.py HOME [flags of swarm-node run]

It reads the output of the node, `status --json`, `peers --json`, `invite --json`, /metrics,
events.jsonl and `model eval --json`, each by the keys that the pages in docs/reference name.
"""

import json
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

PATIENCE = 120.0
STATUS = (
    "healthy", "state", "problems", "role", "peer_id", "pid", "questions",
    "training.round", "training.round_seconds", "training.reward", "training.informative_share",
    "training.external_informative", "training.pool_size", "training.waiting", "training.alone",
    "training.shared_rounds", "training.asks", "training.seconds_since", "training.received",
    "training.rejected",
    "network.enabled", "network.processes", "network.running", "network.resting",
    "network.leaving", "network.swarm", "network.protocol", "network.backend", "network.uptime",
    "network.restarts", "network.reachability", "network.addresses", "network.connected",
    "network.relayed", "network.connections", "network.bootstrap_nodes", "network.peers",
    "network.counters", "network.confined", "network.dropped",
    "invitation", "advice", "used.cpu_seconds", "used.memory_bytes",
)
METRICS = (
    "rounds_total", "external_groups_total", "checkpoints_total", "validations_total",
    "warnings_total", "starts_total", "rollouts_total", "generated_tokens_total",
    "optimizer_steps_total", "trained_tokens_total", "trained_groups_total", "halvings_total",
    "phase_seconds_total", "mean_length", "reward", "mismatch_kl", "external_informative",
    "pool_size", "informative_share", "local_groups", "mismatch_max", "local_informative",
    "external_considered", "staleness", "mismatch_mean", "ended_share", "ratio_mean", "loss",
    "learning_rate", "clip_fraction", "entropy", "grad_norm", "round", "task_reward",
    "validation_reward", "up", "healthy", "state", "info", "round_age_seconds",
    "usual_round_seconds", "received_groups_total", "dropped_messages_total", "connected_peers",
    "relayed_peers", "cpu_seconds_total", "memory_bytes", "network_restarts_total",
    "known_peers", "page_viewers",
)
REPORT = (
    "peer_id", "round", "reward", "reward_by_task", "rollouts", "generated_tokens", "mean_length",
    "ended_share", "local_groups", "local_informative", "external_informative",
    "informative_share", "pool_size", "skipped", "rejected", "step.optimizer_steps",
    "step.trained_tokens", "step.trained_groups", "step.loss", "step.grad_norm",
    "step.learning_rate", "step.ratio_mean", "step.clip_fraction", "step.entropy",
    "step.staleness", "step.mismatch_mean", "step.mismatch_max", "step.mismatch_kl",
    "step.halvings", "step.skipped", "seconds.generate", "seconds.score", "seconds.publish",
    "seconds.collect", "seconds.train", "external_considered", "external_reward",
    "external_by_peer", "overlap",
)


def at(value, path):
    for key in path.split("."):
        value = value[key]
    return value


def show(name, value):
    print(name, "=", json.dumps(value), flush=True)


def asked(*words):
    done = subprocess.run(["swarm-node", *words, "--json"], capture_output=True, text=True)
    return json.loads(done.stdout)


def until(found):
    began = time.monotonic()
    while not found():
        assert time.monotonic() - began < PATIENCE, "it never came"
        time.sleep(0.2)


home, flags = sys.argv[1], sys.argv[2:]
command = ["swarm-node", "run", "--home", home, "--page", "127.0.0.1:0", *flags]
node = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
try:
    page = round_line = validation = None
    for line in node.stdout:
        page = page or re.match(r"page: (http://[^/]+)/#token=(\S+)", line)
        validation = validation or re.match(r"validation after (\d+) rounds: reward ([\d.]+)", line)
        round_line = round_line or re.match(
            r"round (\d+)  reward ([\d.]+)  informative (\d+)%  external (\d+)  ", line
        )
        if page and round_line and validation:
            break
    show("output.page", bool(page))
    show("output.round", int(round_line[1]))
    show("output.validation", int(validation[1]))

    until(lambda: asked("status", "--home", home).get("network", {}).get("addresses"))
    status = asked("status", "--home", home)
    for path in STATUS:
        show(f"status.{path}", at(status, path))
    show("peers", asked("peers", "--home", home))
    show("invitation", asked("invite", "--home", home)["invitation"])

    address, token = page.groups()
    assert token == Path(home, "page.token").read_text().strip()
    request = urllib.request.Request(
        f"{address}/metrics", headers={"Authorization": f"Bearer {token}"}
    )
    metrics = {}

    def measured():
        # A round that trained on nothing has no loss and no mismatch: a later one has.
        with urllib.request.urlopen(request) as answer:
            text = answer.read().decode()
        lines = re.findall(r"^swarm_node_(\w+)(?:\{.*\})? (\S+)$", text, re.MULTILINE)
        metrics.update(lines)
        return metrics.keys() >= set(METRICS)

    until(measured)
    for name in METRICS:
        show(f"metrics.{name}", float(metrics[name]))
finally:
    node.terminate()
    rest = node.communicate()[0]
show("exit code", node.returncode)
show("output.checkpoint", bool(re.search(r"^checkpoint after \d+ rounds: ", rest, re.MULTILINE)))

events = [json.loads(line) for line in Path(home, "events.jsonl").read_text().splitlines()]
show("events", sorted({event["event"] for event in events}))
rounds = [event for event in events if event["event"] == "RoundDone"]
for path in REPORT:
    show(f"report.{path}", at(rounds[-1]["report"], path))
for key in ("peers", "waiting", "alone"):
    show(f"RoundDone.{key}", rounds[-1][key])
validated = [event for event in events if event["event"] == "Validated"][-1]
for key in ("round", "reward", "questions", "best", "by_task"):
    show(f"Validated.{key}", validated[key])
for key in ("title", "folder", "facts", "rounds"):
    show(f"RunStarted.{key}", events[0][key])
manifest = json.loads(Path(home, "manifest.json").read_text())
for path in ("kind", "started", "command", "seeds", "config.model.name", "versions", "hardware"):
    show(f"manifest.{path}", at(manifest, path))

measured = asked("model", "eval", home, "--questions", "2")
for key in ("task", "questions", "skipped", "accuracy", "low", "high"):
    show(f"eval.{key}", measured["all"][key])
show("eval.tasks", [row["task"] for row in measured["tasks"]])
