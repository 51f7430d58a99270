"""`status` and `peers`: what a running node says of itself, for people, for scripts and for health
checks. `pause` and `resume`: the node rests, so that its user has the machine, and continues later.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from swarm_node.common.command import Command
from swarm_node.common.errors import UserError, printable, reason_of
from swarm_node.common.files import open_to_write
from swarm_node.home.folder import in_use
from swarm_node.network.process import control
from swarm_node.rollouts.curriculum import summary
from swarm_node.settings import AskConfig, StatusConfig
from swarm_node.settings.command_line import from_command_line
from swarm_node.settings.limits import PAUSE_FILE

START_SECONDS = 600.0  # a first round may take, with a large model to load
STALLED_SECONDS = 120.0  # without a round ending ...
STALLED_ROUNDS = 6.0  # ... or so many times as long as a round usually takes
SILENT_SECONDS = 20.0  # a network may take to begin listening

# What reading an answer raises that is not of the form of a node's
SENSELESS = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)

PAGE = """\
usage: swarm-node status [--home FOLDER] [--json] [--alive]

Shows the state of the running node. Exit code 0 if it is healthy.

  --home FOLDER   home folder of the node (~/.swarm-node)
  --json          print one JSON object, for scripts
  --alive         exit code 0 whenever the node answers"""

PEERS_PAGE = """\
usage: swarm-node peers [--home FOLDER] [--json]

Lists the peers of the running node.

  --home FOLDER   home folder of the node (~/.swarm-node)
  --json          print a JSON list, for scripts"""

PAUSE_PAGE = """\
usage: swarm-node pause [--home FOLDER]

Lets the node finish its current round and then stops training and sharing. The
node stays paused, even across restarts, until you run swarm-node resume. It
keeps its memory; to free it, stop the node with Ctrl-C.

  --home FOLDER   home folder of the node (~/.swarm-node)"""

RESUME_PAGE = """\
usage: swarm-node resume [--home FOLDER]

Lets a node continue that was paused with swarm-node pause.

  --home FOLDER   home folder of the node (~/.swarm-node)"""


def ask(home: Path) -> dict[str, Any]:
    """The node's reply with "healthy", "problems" and "state"; only the first two if there is no
    reply.
    """
    answer = control.ask(home)
    if answer is None:
        problem = (
            f"no node runs in {home}: start it with swarm-node run, or name its folder with --home"
        )
        if in_use(home):
            problem = (
                f"a node runs in {home} and does not answer: it may be starting; look at "
                "what it prints"
            )
        return {"healthy": False, "problems": [problem]}
    try:
        found = problems(answer)
        state = state_of(answer, found)
        answer |= _of_its_swarm(home, answer)
    except SENSELESS:
        return {"healthy": False, "problems": [strange(home)]}
    return {"healthy": state in ("healthy", "resting"), "problems": found, "state": state, **answer}


def _of_its_swarm(home: Path, answer: Mapping[str, Any]) -> dict[str, Any]:
    """What the card says, and how others are invited: an invitation names the card."""
    # Now: where no node runs, nothing of this is needed
    from swarm_node.swarm.inviting import invitation
    from swarm_node.swarm.joining import card_facts

    card = card_facts(home, answer)
    return {**card, **invitation(home, {**answer, **card})}


def strange(home: Path) -> str:
    """A line about an answer that no node of ours gives: anybody can put a socket into a folder."""
    return f"what answers in {home} is not a node of this version: look at what runs there"


def state_of(answer: Mapping[str, Any], problems: Sequence[str]) -> str:
    """How the node is, in a word."""
    training = answer.get("training")
    if problems:
        return "unhealthy"
    if training and training.get("resting"):
        return "resting"
    return "healthy" if begun(training) else "starting"


def begun(training: Mapping[str, Any] | None) -> bool:
    """Whether a round has ended since the start; a bootstrap node has none."""
    return training is None or bool({"round", "published"} & training.keys())


def problems(answer: Mapping[str, Any]) -> list[str]:
    """What a health check should fail for. To have no peers is not a problem: the node trains, and
    keeps trying.
    """
    training, network = answer.get("training"), answer.get("network", {})
    found = []
    if training is not None and not training.get("resting") and (late := stalled(training)):
        found.append(late)
    if network.get("leaving"):
        found.append("the node was told to stop: it saves its work, and then it ends")
    elif network.get("enabled", True) and not network.get("resting"):
        if why := alone(answer):
            found.append(why)
        # Before that, the network is starting, too
        if not network.get("running") and begun(training):
            found.append(
                "the network process is down and will be started again; training continues. If it "
                "stays so, read network.log in the home"
            )
        elif network.get("running") and _is_silent(network):
            found.append(
                "this node accepts no connections: look for the warning about its port or address "
                "in the node's output"
            )
    return found


def _is_silent(network: Mapping[str, Any]) -> bool:
    """Whether nobody can have reached the network process, although it has run for a while."""
    return not network.get("addresses") and network.get("uptime", 0.0) > SILENT_SECONDS


def stalled(training: Mapping[str, Any]) -> str:
    """What is wrong where no round has ended for long, else "". A contributor has no rounds."""
    since = training["seconds_since"]
    if "round" in training:
        patience = max(STALLED_SECONDS, STALLED_ROUNDS * training["round_seconds"])
        if since > patience:
            return (
                f"training stands still: no round has ended for {since:.0f} s. See what the node "
                "prints and how busy the machine is; if it stays so, stop the node and start it "
                "again"
            )
    if not begun(training) and since > START_SECONDS:
        return (
            f"no round has ended yet, {since:.0f} s after the start; a large model, or a download, "
            "takes its time"
        )
    return ""


def alone(answer: Mapping[str, Any]) -> str:
    """What is wrong where peers have said something, and none of them can share with this node;
    else "".
    """
    peers = answer["network"].get("peers", ())
    notes = [str(peer["note"]) for peer in peers if peer["note"]]
    if notes and all(peer["note"] or peer["last_seen"] is None for peer in peers):
        theirs = printable(notes[0], 120)
        return (
            f"alone: every peer it found {theirs}; give the right --swarm, or the address of "
            "another node"
        )
    asking = [f"{peer['peer']} has {peer['asks']}" for peer in peers if peer.get("asks")]
    if not asking or any(peer["authored"] and not peer["asks"] for peer in peers):
        return ""
    questions = answer.get("questions", {})
    own = ", ".join(f"{name} {version}" for name, version in questions.items())
    return (
        f"alone: {len(asking)} peers share, and none has this node's questions, which are of "
        f"{printable(own, 120)}: {printable(asking[0], 240)}; train with the same rows, template, "
        "verifier and release to share with them (swarm-node task try FILE says the version)"
    )


def status_lines(answer: Mapping[str, Any]) -> list[str]:
    """The reply as lines for a person."""
    training, network = answer.get("training", {}), answer.get("network", {})
    about = {
        "starting": (
            f"starting: no round has ended yet, {training.get('seconds_since', 0.0):.0f} "
            "s after the start"
        ),
        "resting": f"resting: {training.get('resting')}",
        "healthy": "healthy: yes",
    }
    lines = [about.get(answer.get("state", ""), "healthy: no")]
    lines += [f"  {problem}" for problem in answer["problems"]]
    if "peer_id" in answer:
        lines.append(f"{answer['role']} {answer['peer_id']}")
    if "model" in training:
        lines.append(f"model: {training['model']}")
    if "round" in training:
        reward = "" if training["reward"] is None else f"reward {training['reward']:.3f}, "
        lines.append(
            f"training: round {training['round']} ended {training['seconds_since']:.0f} s ago and "
            f"took {training['round_seconds']:.2f} s, {reward}{training['external_informative']} "
            f"external groups in it, {training['received']} received so far"
        )
    if chosen := training.get("chosen"):
        told = summary(chosen["practised"], chosen["dropped"], chosen["unasked"])
        lines.append(f"tasks: {told}")
    if "shared_rounds" in training:
        alone = f"; the last one was alone: {training['alone']}" if training.get("alone") else ""
        lines.append(
            f"sharing: {training['shared_rounds']:.0%} of the last rounds had external "
            f"groups{alone}"
        )
    if "own_groups" in training:
        lines.append(
            f"learned since the start from {training['own_groups']} informative groups of its own "
            f"and {training['others_groups']} of others"
        )
    if training.get("traffic_megabytes"):
        lines.append(f"traffic: {training['traffic_megabytes']:.1f} MB this month")
    if network.get("running"):
        lines.append(
            f"network: {network['reachability']}, {network['connected']} connected "
            f"({network['relayed']} relayed), "
            f"{len(network['peers'])} known, {network['backend']}, swarm {network['swarm']}"
        )
        lines += [f"  address {printable(address)}" for address in network["addresses"]]
        lines += [
            f"  bootstrap node {each['peer']}: {printable(each['state'])}"
            for each in network["bootstrap_nodes"]
        ]
        lines += [f"  {name}: {count}" for name, count in sorted(network["counters"].items())]
        lines += [answer["advice"]] if "advice" in answer else []
    elif network.get("enabled") is False:
        lines.append("network: off")
    lines += answer.get("besides", [])
    return [printable(line, 500) for line in lines]


def peer_lines(answer: Mapping[str, Any]) -> list[str]:
    """Each peer on a line of its own, to be copied whole, with its figures and address in indented
    lines below.
    """
    lines: list[str] = []
    for peer in answer.get("network", {}).get("peers", ()):
        lines += [str(peer["peer"]), f"  {_figures(peer)}"]
        lines += [f"  {address}" for address in peer["addresses"][:1]]
    return [printable(line, 400) for line in lines]


def _figures(peer: Mapping[str, Any]) -> str:
    """How the peer is, what it gave and took, and what it was charged for."""
    counts = sorted(peer.get("faults", {}).items())
    faults = ", ".join(f"{why}: {count}" for why, count in counts)
    parts = [f"{peer['state']} {peer['note']}".strip()]
    if peer["last_seen"] is None:
        parts.append("never seen")
    else:
        parts.append(f"last seen {peer['last_seen']:.0f} s ago")
    if peer["round"] is not None:
        parts.append(f"round {peer['round']}")
    parts.append(f"gave {peer.get('authored', 0)}")
    parts.append(f"took {peer.get('served', 0)}")
    if faults:
        parts.append(f"charged for {faults}")
    if peer.get("asks"):
        parts.append(f"practises {peer['asks']}")
    return ", ".join(filter(None, parts))


def status_command(argv: list[str]) -> None:
    """Exit code 1 where the node is not healthy."""
    config = from_command_line(StatusConfig, argv, "swarm-node status", flags_only=True)
    home = config.home.expanduser()
    answer = ask(home)
    try:
        lines = status_lines(answer)
    except SENSELESS as error:
        raise UserError(strange(home)) from error
    print(json.dumps(answer) if config.json_output else "\n".join(lines))
    sys.exit(0 if answer["healthy"] or (config.alive and "role" in answer) else 1)


def peers_command(argv: list[str]) -> None:
    """Whom the running node knows, in lines or as JSON. Raises UserError where no node answers."""
    config = from_command_line(AskConfig, argv, "swarm-node peers", flags_only=True)
    home = config.home.expanduser()
    answer = ask(home)
    if "network" not in answer:
        raise UserError("; ".join(answer["problems"]))
    try:
        lines = [f"{answer['network'].get('connected', 0)} connected", *peer_lines(answer)]
    except SENSELESS as error:
        raise UserError(strange(home)) from error
    if config.json_output:
        print(json.dumps(answer["network"].get("peers", [])))
    else:
        print("\n".join(lines))


def pause(argv: list[str]) -> None:
    """Tells the node of a home to rest, whether it runs or starts later."""
    _tell(
        argv,
        "pause",
        lambda file: open_to_write(file).close(),
        "it will pause after this round",
        "rest",
    )


def resume(argv: list[str]) -> None:
    """Tells the node of a home to continue."""
    _tell(argv, "resume", Path.unlink, "it continues", "work")


def _tell(argv: list[str], command: str, act: Callable[[Path], None], now: str, later: str) -> None:
    home = from_command_line(
        AskConfig, argv, f"swarm-node {command}", flags_only=True
    ).home.expanduser()
    if not home.is_dir():
        raise UserError(f"home {home} is not a folder: name the folder of a node with --home")
    if (control.ask(home) or {}).get("role") == "bootstrap":
        raise UserError(
            f"a bootstrap node runs in {home}: it does not train, so it cannot {command}; "
            "Ctrl-C or SIGTERM stops it"
        )
    try:
        act(home / PAUSE_FILE)
    except FileNotFoundError as error:
        raise UserError(
            f"home {home} is not paused; if its node rests all the same, swarm-node status says why"
        ) from error
    except OSError as error:
        raise UserError(
            f"home {home}: {reason_of(error)}; name the folder of a node with --home"
        ) from error
    print(now if in_use(home) else f"no node runs there now; the next one will {later}")


STATUS = Command(StatusConfig, PAGE, status_command)
PEERS = Command(AskConfig, PEERS_PAGE, peers_command)
PAUSE = Command(AskConfig, PAUSE_PAGE, pause)
RESUME = Command(AskConfig, RESUME_PAGE, resume)
