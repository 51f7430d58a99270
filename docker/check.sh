#!/bin/sh
# Does the image work? On the Docker engine of this machine it runs a bootstrap node and two nodes, which must find each
# other through it, train, publish, teach each other, keep their identity over a restart, and save at SIGTERM. Then come
# mistakes of users and machines: each must end with one line that says what is wrong and what to do. Cleans up after
# itself. The nodes are a swarm of their own, so that others on this machine do not count.
#
# Two nodes that know the same have nothing to teach each other, and that is no fault of an image. So each practises
# tasks of its own (the starter `rare` answers hardly any of them at first), and is examined in those of the other.
#
#   docker/check.sh [IMAGE]          (default: swarm-node; build it first, see Dockerfile)
#
# PATIENCE=1800: seconds to wait for each step on a slow machine, instead of 900.
set -eu
here=$(dirname "$0")
image=${1:-swarm-node}
name=swarm-check-$$
patience=${PATIENCE:-900}
tasks_of_a=chain_sum/tiny,products/tiny,lcm/tiny
tasks_of_b=gcd/tiny,fraction_simplification/tiny,count_bits/tiny
say() { printf '%s\n' "$*"; }
fail() { say "FAILED: $*"; docker logs --tail 20 "$name-a" 2>&1 || true; exit 1; }
cleanup() {
    docker rm -fv "$name-bootstrap" "$name-a" "$name-b" "$name-alone" >/dev/null 2>&1 || true
    docker volume rm "$name-bootstrap" "$name-a" "$name-b" >/dev/null 2>&1 || true
    docker network rm "$name" >/dev/null 2>&1 || true
}
trap cleanup EXIT
# wait_for SECONDS COMMAND...: tries the command until it succeeds, or fails after that time
wait_for() {
    left=$(($1 * 2)); shift
    until "$@"; do left=$((left - 1)); [ $left -gt 0 ] || return 1; sleep 0.5; done
}

docker network create "$name" >/dev/null
for volume in entry a b; do docker volume create "$name-$volume" >/dev/null; done
size=$(docker image inspect -f '{{.Size}}' "$image")
say "image $image: $((size / 1000000)) MB"
[ "$(docker run --rm --entrypoint id "$image" -u)" != 0 ] || fail "the image runs as root"
found=$(docker run --rm --user 0 --entrypoint find "$image" / -xdev -type f -perm /6000)
[ -z "$found" ] || fail "these run as another user: $found"
found=$(docker run --rm --entrypoint find "$image" /opt/swarm-node/bin ! -type d ! -name 'python*' ! -name swarm-node)
[ -z "$found" ] || fail "commands of others: $found"
label() { docker image inspect -f "{{index .Config.Labels \"org.opencontainers.image.$1\"}}" "$image"; }
version=$(docker run --rm "$image" --version)
[ "swarm-node $(label version)" = "$version" ] && [ "$(label licenses)" = MIT ] || fail "labels: not of $version"
# A module whose bytecode is missing or not readable is compiled at every start: with many, that costs seconds.
compiled=$(docker run --rm --read-only -e PYTHONVERBOSE=1 -e SWARM_NODE_THREADS=1 "$image" --model.name rare --max-rounds 1 \
    --network.no-enabled 2>&1 | grep -c "^# code object from /.*\.py$") || true
[ "$compiled" -lt 50 ] || fail "a start compiles $compiled modules"
say "a start compiles $compiled modules"

docker run -d --name "$name-bootstrap" --network "$name" -v "$name-entry:/data" "$image" bootstrap --port 31330 --swarm "$name" --no-mdns >/dev/null
has_address() { address=$(docker exec "$name-bootstrap" sh -c 'grep -v 127.0.0.1 /data/addresses | head -1' 2>/dev/null) && [ -n "$address" ]; }
wait_for $patience has_address || { docker logs "$name-bootstrap"; fail "the bootstrap node shows no address"; }
say "bootstrap node: $address"

start=$(date +%s)
# begin NODE TASKS
begin() {
    docker run -d --name "$name-$1" --network "$name" --read-only -v "$name-$1:/data" -e SWARM_NODE_THREADS=1 "$image" \
        --model.name rare --environment.tasks "$2" --peers "$address" --swarm "$name" --network.no-mdns >/dev/null
}
begin a $tasks_of_a
begin b $tasks_of_b
learned() { docker exec "$name-a" grep -q RoundDone /data/events.jsonl 2>/dev/null; }
wait_for $patience learned || fail "node a did not finish a round within $patience s"
say "cold start to first round: $(($(date +%s) - start)) s"
shared() { docker exec "$name-a" grep -q '"external_informative": [1-9]' /data/events.jsonl; }
wait_for $patience shared || fail "node a trained on nothing of node b within $patience s"
say "cold start to first shared round: $(($(date +%s) - start)) s"
# Of at least 20 rounds in which b could teach a, 80 % must have trained on groups of b: see sharing.py.
judged() { looked=$(docker exec "$name-a" cat /data/events.jsonl | docker exec -i "$name-a" python -P -c "$(cat "$here/sharing.py")"); }
twenty() { judged && [ "${looked% *}" -ge 20 ]; }
wait_for $patience twenty || fail "b could not teach a in 20 rounds within $patience s: $looked"
[ $((100 * ${looked#* })) -ge $((80 * ${looked% *})) ] || fail "only ${looked#* } of ${looked% *} rounds in which b could teach a trained on its groups"
say "of ${looked% *} rounds in which b could teach a, ${looked#* } trained on its groups"
wait_for $patience docker exec "$name-a" swarm-node status >/dev/null || fail "status says the node is not well"
docker exec "$name-a" swarm-node status
docker exec "$name-a" swarm-node peers
healthy() { [ "$(docker inspect -f '{{.State.Health.Status}}' "$name-a")" = healthy ]; }
wait_for $patience healthy || fail "the health check does not pass"

# What a answers of the tasks that only b practises: right answers of 1000, before any training and after 300 rounds
right() { sed -n 's/.*"all": {[^}]*"accuracy": \([0-9.]*\).*/\1/p' | awk '{ printf "%d", 1000 * $1 }'; }
untrained=$(docker run --rm -e SWARM_NODE_THREADS=1 "$image" model eval --model.name rare --tasks $tasks_of_b --questions 50 --json | right)
far() { [ "$(docker exec "$name-a" grep -c RoundDone /data/events.jsonl)" -ge 300 ]; }
wait_for $((2 * patience)) far || fail "node a did not finish 300 rounds within $((2 * patience)) s"

before=$(docker exec "$name-a" swarm-node home id)
start=$(date +%s)
docker stop --time "$patience" "$name-a" >/dev/null
took=$(($(date +%s) - start))
[ "$(docker inspect -f '{{.State.ExitCode}}' "$name-a")" = 0 ] || fail "exit code $(docker inspect -f '{{.State.ExitCode}}' "$name-a") after SIGTERM"
docker logs --tail 8 "$name-a" 2>&1 | grep -q checkpoint || fail "no checkpoint after SIGTERM"
say "SIGTERM: saved and left within $took s"
taught=$(docker run --rm -v "$name-a:/data" -e SWARM_NODE_THREADS=1 "$image" model eval --tasks $tasks_of_b --questions 50 --json | right)
[ "$taught" -ge $((untrained + 200)) ] || fail "of 1000 questions that only b practises, a answers $taught; untrained it answered $untrained"
say "of 1000 questions that only b practises, a answers $taught; untrained it answered $untrained"
docker start "$name-a" >/dev/null
resumed() { docker logs "$name-a" 2>&1 | grep -q 'resumed after'; }
wait_for $patience resumed || fail "the node did not resume from its volume"
[ "$(docker exec "$name-a" swarm-node home id)" = "$before" ] || fail "another identity after a restart"
say "restart: same identity, resumed"

# mistake TEXT WORDS ARGUMENTS...: demands that `docker run ARGUMENTS` ends with code 2 and prints one line, which
# contains WORDS. Lines that say what is being loaded do not count.
mistake() {
    text=$1 words=$2; shift 2
    code=0; said=$(docker run --rm "$@" 2>&1) || code=$?
    said=$(printf '%s\n' "$said" | grep -v '^loading \|^model ')
    [ $code = 2 ] && [ "$(printf '%s\n' "$said" | wc -l)" = 1 ] || fail "$text: code $code, and it said: $said"
    case $said in *"$words"*) say "$text: $said" ;; *) fail "$text: $said" ;; esac
}
docker rm -f "$name-a" "$name-b" >/dev/null
dead=/ip4/10.1.2.3/tcp/31330/p2p/$before
mistake "an address that is none" "must look like /ip4/" "$image" --peers 1.2.3.4:31330
mistake "an address without an identity" "must end in /p2p/" "$image" --peers /ip4/1.2.3.4/tcp/31330
mistake "a read-only volume" "make it writable" -v "$name-a:/data:ro" "$image"
docker run --rm -v "$name-b:/data" --user 0 --entrypoint chown "$image" -R 0:0 /data
mistake "a volume of somebody else" "make it writable for user 1000" -v "$name-b:/data" "$image"
code=0; said=$(docker run --rm --tmpfs /data:size=4k,uid=1000 -e SWARM_NODE_THREADS=1 -e SWARM_NODE_MODEL__NAME "$image" --max-rounds 2 2>&1) || code=$?
[ $code = 75 ] || fail "a full volume: code $code, $said"
line=$(printf '%s\n' "$said" | grep -m 1 'make room') || fail "a full volume: $said"
say "a full volume: $line"
docker run -d --name "$name-alone" --network none -e SWARM_NODE_THREADS=1 -e SWARM_NODE_MODEL__NAME "$image" --peers "$dead" >/dev/null
warned() { docker logs "$name-alone" 2>&1 | grep -q 'none of --peers answers'; }
wait_for $patience warned || fail "without a network nothing is said: $(docker logs --tail 5 "$name-alone" 2>&1)"
say "no network: $(docker logs "$name-alone" 2>&1 | grep -m 1 'none of --peers')"
trains_alone() { docker exec "$name-alone" grep -q RoundDone /data/events.jsonl; }
wait_for $patience trains_alone || fail "without a network it does not train"
say OK
