#!/bin/sh
# fresh.sh CASE...: what a newcomer types, in a container that has nothing else. Cases:
#
#   uv     Python, git and uv, and no compiler: README's quick start, twenty rounds, `ask`
#   make   Python and make alone: `make simulate` for two rounds, and the first tests of `make test`
#
# It needs a Docker engine and an image debian:bookworm-slim (BASE names another Debian 12). The last commit of this
# checkout is cloned into the container; nothing else of it is there. A starter is trained, so that no hub has to answer.
# Where PyTorch's index cannot be reached, WHEELS is a folder with a wheel of torch: then `--torch-backend auto` is left
# out. UV is the program that the container gets (uv of this machine). BY_RANGES=1 allows `make install` other versions than
# those of the lock, where the index lacks one.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
base=${BASE:-debian:bookworm-slim}
wheels=${WHEELS:-}
given=$(mktemp -d)
trap 'rm -rf "$given"' EXIT
[ $# -gt 0 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 1; }

git -C "$root" bundle create -q "$given/swarm-node.bundle" HEAD
if [ -n "$wheels" ]; then cp "$wheels"/torch-*.whl "$given"; fi

cat >"$given/common.sh" <<'END'
set -eu
apt_get() { apt-get update -q >/dev/null && apt-get install -qy --no-install-recommends "$@" >/dev/null 2>&1; }
no() { for program in "$@"; do ! command -v "$program" || { echo "FAILED: $program is here"; exit 1; }; done; }
began=$(date +%s)
step() { echo "== $* ($(($(date +%s) - began)) s)"; }
export SWARM_NODE_MODEL__NAME=rare SWARM_NODE_NETWORK__HOST=127.0.0.1 SWARM_NODE_NETWORK__MDNS=false
cd "$HOME"
END

# README's own lines: those of the first block below "Quick start", without what stands behind three blanks and a hash.
sed -n '/^## Quick start/,/^## /p' "$root/README.md" | sed -n '/^```bash/,/^```/p' | sed '1d;/^```/,$d;s/   *#.*//' \
    | sed "s#git clone URL #git clone -q /given/swarm-node.bundle #" >"$given/quick_start"
[ -z "$wheels" ] || sed -i 's/--torch-backend auto //' "$given/quick_start"

cat >"$given/uv.sh" <<'END'
. /given/common.sh
apt_get python3 git ca-certificates
no cc gcc make
export PATH="/given:$HOME/.local/bin:$PATH" UV_PYTHON=python3
ls /given/torch-*.whl >/dev/null 2>&1 && export UV_FIND_LINKS=/given
cat /given/quick_start
# One shell, since `cd` of the first line counts for the others
. /given/quick_start
step "installed, trained and asked"
no cc gcc make
END

cat >"$given/make.sh" <<'END'
. /given/common.sh
apt_get python3 make ca-certificates
no cc gcc git
ls /given/torch-*.whl >/dev/null 2>&1 && export PIP_FIND_LINKS=/given
cd /given/source
make install
step installed
# Variables shorten it; what is typed is `make simulate`
SWARM_NODE_ROUNDS=2 SWARM_NODE_NODES=2 SWARM_NODE_ARMS=8/0,4/4 SWARM_NODE_EVALUATE_EVERY=0 make simulate
step simulated
PYTEST_ADDOPTS="-x tests/protocol tests/core/common" make test
step "the first tests passed"
END

for case; do
    [ -f "$given/$case.sh" ] || { echo "no case is called $case; there are uv and make"; exit 1; }
    echo "==== $case"
    if [ "$case" = uv ]; then cp "${UV:-$(command -v uv)}" "$given/uv"; fi
    if [ "$case" = make ]; then
        mkdir "$given/source"
        git -C "$root" archive HEAD | tar -x -C "$given/source"
    fi
    docker run --rm --network host -e BY_RANGES -v "$given:/given" "$base" sh /given/"$case.sh"
    echo "==== $case: done"
done
