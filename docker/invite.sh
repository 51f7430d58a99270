#!/bin/sh
# Do two containers share after one command each? The first one runs, `invite` prints its code, and the second one joins
# by it; nothing else leads them to each other. Demands that each has trained on groups of the other within 60 seconds
# of the first start. They train a starter, as the time to load a larger model should not count. Cleans up after itself.
#
#   docker/invite.sh [IMAGE]          (default: swarm-node; build it first, see Dockerfile)
#
# LIMIT=300: seconds allowed instead, for a busy machine.
set -u
cd "$(dirname "$0")"
image=${1:-swarm-node}
name=swarm-invite-$$
PATIENCE=${LIMIT:-60}
. ./demands.sh
cleanup() { docker rm -fv "$name-a" "$name-b" >/dev/null 2>&1; docker network rm "$name" >/dev/null 2>&1; }
trap cleanup EXIT
trap 'exit 130' INT TERM
start() { # NODE ARGUMENTS...
    node=$1; shift
    docker run --detach --name "$name-$node" --network "$name" --read-only -e SWARM_NODE_THREADS=1 \
        -e SWARM_NODE_NETWORK__MDNS=false -e SWARM_NODE_MODEL__NAME=rare "$image" "$@" >/dev/null
}
invited() { code=$(docker exec "$name-a" swarm-node invite 2>/dev/null); }
shares() { docker exec "$name-$1" grep -q '"external_informative": [1-9]' /data/events.jsonl 2>/dev/null; }

docker network create "$name" >/dev/null || exit 1
nothing=$(date +%s)
demand "a runs" start a run --swarm "$name"
demand "a invites" soon invited
demand "b joins by the code" start b join "$code"
demand "both have trained on groups of the other" soon every shares a b
took=$(($(date +%s) - nothing))
demand "from nothing to sharing in $took s, and $patience s are allowed" [ $took -le "$patience" ]
[ $failures -eq 0 ] || { docker logs --tail 20 "$name-a"; docker logs --tail 20 "$name-b"; exit 1; }
