#!/bin/sh
# Does docs/how-to/several_machines.md do what it promises? Containers stand for machines: each has its own address, and
# what compose starts "on the host" takes the network of that container. Prints one line per demand; the exit code is 0
# if all hold. Cleans up after itself.
#
#   docker/check_several_machines.sh          (needs docker compose and the image swarm-node, see Dockerfile)
#
# PATIENCE=600: seconds to wait for each demand on a slow machine, instead of 240. SWARM_NODE_IMAGE: another image.
set -u
cd "$(dirname "$0")/.."
project=swarm-machines-$$
network=10.213.$(($$ % 250))
. docker/demands.sh
unset SWARM_NODE_NETWORK__PEERS
if docker compose version >/dev/null 2>&1; then program="docker compose"; else program=docker-compose; fi
work=$(mktemp -d)

# The only additions to the guide: which network is the host's, and no multicast, as between distant machines.
cat >"$work/machine.yaml" <<YAML
services:
  SERVICE:
    network_mode: "container:$project-MACHINE"
    environment: {SWARM_NODE_NETWORK__MDNS: "false", SWARM_NODE_THREADS: "1"}
YAML

# compose MACHINE SERVICE ARGUMENTS...: runs compose as the guide says, on that machine
compose() {
    machine=$1 service=$2; shift 2
    sed "s/SERVICE/$service/; s/MACHINE/$machine/" "$work/machine.yaml" >"$work/$machine-$service.yaml"
    $program -p "$project-$machine-$service" -f "deploy/compose/$service.yaml" -f "$work/$machine-$service.yaml" "$@" 2>>"$work/log"
}
container() { docker ps --all --quiet --filter "label=com.docker.compose.project=$project-$1-$2"; }
inside() { machine=$1; shift; docker exec "$(container "$machine" node)" "$@" 2>/dev/null; }
cleanup() {
    for each in one two three late; do for service in node bootstrap; do
        [ -z "$(container $each $service)" ] || compose $each $service down --volumes --timeout 1 >/dev/null
    done; docker rm -f "$project-$each" >/dev/null 2>&1; done
    docker network rm "$project" >/dev/null 2>&1
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

ip_of() { # a machine keeps its address when it comes back
    case $1 in one) echo "$network.11" ;; two) echo "$network.12" ;; three) echo "$network.13" ;; late) echo "$network.14" ;; esac
}
boot() {
    docker run --detach --name "$project-$1" --network "$project" --ip "$(ip_of "$1")" --entrypoint sleep "${SWARM_NODE_IMAGE:-swarm-node}" infinity >/dev/null
}
boot_all() { docker network create --subnet "$network.0/24" "$project" >/dev/null && every boot one two three late; }
address() { # of the bootstrap node, as others dial it
    compose one bootstrap exec -T bootstrap cat /data/addresses | tr -d '\r' | grep -m 1 "^/ip4/$(ip_of one)/tcp/"
}
says_where() { [ -n "$(address)" ]; }
refused() { ! compose two node config >/dev/null && grep -q 'give the address of a bootstrap node' "$work/log"; }
up() { compose "$1" node up --detach >/dev/null; }
rounds() { inside "$1" grep -c RoundDone /data/events.jsonl; }
learned() { inside "$1" sh -c "grep RoundDone /data/events.jsonl | tail -n +${2:-1}" | grep -q '"external_informative": [1-9]'; }
went_on() { learned "$1" $(($(sed -n "s/^$1 //p" "$work/counted") + 3)); } # in rounds after those counted
count() { for each in "$@"; do echo "$each $(rounds "$each")"; done >"$work/counted"; }
connected() { inside "$1" swarm-node status | grep -q ', [1-9][0-9]* connected'; }
healthy() { [ "$(docker inspect -f '{{.State.Health.Status}}' "$(container "$1" node)")" = healthy ]; }
resumed() { docker logs "$(container "$1" node)" 2>&1 | grep -q 'resumed after'; }
same() { [ "$(inside "$1" swarm-node home id)" = "$2" ]; }

demand "four machines, each with an address" boot_all
demand "without the address of a bootstrap node nothing starts, and one line says why" refused
demand "one: the bootstrap node starts" compose one bootstrap up --detach
demand "one: its addresses are shown" soon says_where
SWARM_NODE_NETWORK__PEERS=$(address) && export SWARM_NODE_NETWORK__PEERS
echo "        $SWARM_NODE_NETWORK__PEERS"
demand "one, two, three: a node starts" every up one two three
demand "each trains on external groups" soon every learned one two three
demand "status: each is connected" soon every connected one two three
demand "each is healthy" soon every healthy one two three

count two three
docker kill "$(container one bootstrap)" "$(container one node)" "$project-one" >/dev/null
demand "one is lost: two and three go on learning from each other" soon every went_on two three

before=$(inside three swarm-node home id)
demand "three: SIGTERM, and the container is made again" eval "compose three node down --timeout 120 >/dev/null && up three"
demand "three: goes on from its checkpoint" soon resumed three
demand "three: is the same node" same three "$before"

docker start "$project-one" >/dev/null
demand "one is back, and its bootstrap node" compose one bootstrap up --detach --force-recreate
demand "one: the address is the same" soon eval '[ "$(address)" = "$SWARM_NODE_NETWORK__PEERS" ]'
demand "late: a machine joins" up late
demand "late: trains on external groups" soon learned late

[ $failures -eq 0 ] || { echo "$failures failed; what compose said:"; tail -20 "$work/log"; exit 1; }
