#!/bin/sh
# Does docker/compose.yaml do what it promises? Starts a bootstrap node and eight nodes on this machine's Docker engine.
# Prints one line per demand; the exit code is 0 if all hold. Cleans up after itself. Takes four minutes on two cores.
#
#   docker/check_compose.sh          (needs docker compose v2 and the image swarm-node, see Dockerfile)
#
# PATIENCE=600: seconds to wait for each demand on a slow machine, instead of 240.
set -u
cd "$(dirname "$0")"
project=swarm-check-$$
nodes="node0 node1 node2 node3 node4 node5 node6 node7"
. ./demands.sh
export SWARM_NODE_PORT=0 # any free port, as a swarm may run on this machine

compose() { docker compose -p "$project" -f compose.yaml "$@" 2>>"$log"; }
container() { echo "$project-$1-1"; }
inside() { node=$1; shift; docker exec "$(container "$node")" "$@" 2>/dev/null; }
cleanup() { compose down --volumes --timeout 1 >/dev/null; rm -f "$log"; }
log=$(mktemp)
trap cleanup EXIT
trap 'exit 130' INT TERM

healthy() { [ "$(docker inspect -f '{{.State.Health.Status}}' "$(container "$1")")" = healthy ]; }
not_root() { [ "$(inside "$1" id -u)" = 1000 ]; }
rounds() { inside "$1" grep -c RoundDone /data/events.jsonl; }
learned() { inside "$1" grep -q '"external_informative": [1-9]' /data/events.jsonl; }
connected() { inside "$1" swarm-node status | grep -q ', [1-9][0-9]* connected'; }
knows_others() { [ "$(inside "$1" swarm-node peers --json | grep -o '"round": [0-9]' | wc -l)" -ge 2 ]; }
went_on() { # has trained on external groups in rounds after those counted before
    inside "$1" sh -c "grep RoundDone /data/events.jsonl | tail -n +$(($(before "$1") + 3))" |
        grep -q '"external_informative": [1-9]'
}
before() { echo "$counted" | sed -n "s/^$1 //p"; }
left_well() { [ "$(docker inspect -f '{{.State.Status}} {{.State.ExitCode}}' "$(container "$1")")" = "exited 0" ]; }
stop_all() { # all at once: compose would stop the bootstrap node after the others
    stopping=$(date +%s)
    docker stop --time 30 $(for each in bootstrap $nodes; do container "$each"; done) >/dev/null &&
        [ $(($(date +%s) - stopping)) -le 10 ]
}
same_identity() { [ "$(inside "$1" swarm-node home id)" = "$(echo "$identities" | sed -n "s/^$1 //p")" ]; }
resumed() { docker logs "$(container "$1")" 2>&1 | grep -q 'resumed after'; }
all_of() { for each in $nodes; do echo "$each $("$@" "$each")"; done; }
id_of() { inside "$1" swarm-node home id; }

demand "the file is valid" compose config --quiet
demand "nine containers start" compose up --detach --quiet-pull
demand "none runs as root" every not_root
demand "each node trains on external groups" soon every learned
demand "the bootstrap node and all nodes are healthy" soon every healthy bootstrap $nodes
demand "status: each is connected" soon every connected
demand "peers: each knows rounds of two others or more" soon every knows_others
docker stats --no-stream --format '{{.Name}} {{.MemUsage}}' | grep "^$project" | sed "s/^$project-/        memory /; s|/.*||" | sort

counted=$(all_of rounds)
docker kill "$(container node7)" >/dev/null
demand "node7 is killed: the others go on learning from each other" soon every went_on ${nodes% node7}
compose start node7 >/dev/null
demand "node7 comes back and is healthy" soon every healthy node7

identities=$(all_of id_of)
demand "SIGTERM: all have left within 10 s" stop_all
demand "SIGTERM: exit code 0 of all" every left_well bootstrap $nodes
compose down >/dev/null
demand "down, up: the containers are made again" compose up --detach
demand "down, up: each goes on from its checkpoint" soon every resumed
demand "down, up: each has its identity" every same_identity

[ $failures -eq 0 ] || { echo "$failures failed; what compose said:"; tail -20 "$log"; compose logs --tail 5; exit 1; }
