#!/bin/sh
# drill.sh FOLDER: what a stranger can do with a release, in a new folder, from a clone and the package index alone. It tags,
# builds twice, lists parts and licences, verifies, installs by uvx from an index of its own, trains two rounds, and makes
# the image and the site. `make drill` starts it; pip's and uv's variables say where torch comes from.
set -eu
from=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1" && cd "$1"
[ -z "$(ls -A)" ] || { echo "$1 has files: name a new folder"; exit 1; }
step() { printf '\n== %s\n' "$*"; }
quietly() { "$@" >log 2>&1 || { tail -n 30 log; exit 1; }; }

step tag
git clone -q --no-local "$from" source
project() { sed -n "s/^$1 = \"\([^\"]*\)\".*/\1/p" source/pyproject.toml | head -n 1; }
name=$(project name) version=$(project version) tag=drill-$(project version)
git -C source -c user.name=drill -c user.email=drill@example.org tag -a "$tag" -m "$name $version, a drill"
git -C source show -s --format="$tag is commit %h of %cs" "$tag^{commit}"

step "tools, each by its hash"
quietly make -C source .venvs/release/installed
PATH=$PWD/source/.venvs/release/bin:$PATH
export PYTHON="$PWD/source/.venvs/release/bin/python"
echo "$(python -m pip list 2>/dev/null | tail -n +3 | wc -l) packages of release/tools.txt"

step "build twice: two folders, two users' habits"
(cd source && release/build.sh "$tag" ../once)
git clone -q --no-local source elsewhere
(umask 077 && cd elsewhere && TZ=Pacific/Auckland LC_ALL=C PYTHONHASHSEED=7 release/build.sh "$tag" ../twice >/dev/null)
for file in once/*; do cmp "$file" "twice/${file#once/}"; done
echo "the same bytes"

step verify
(cd once && sha256sum --check SHA256SUMS)
quietly sh -c 'cd source && reuse lint' && sed -n '/^\* Used licenses/p; /^\* Files with license/p' log

step "install by uvx, from an index of its own"
mkdir -p "simple/$name"
cp once/*.whl once/*.tar.gz "simple/$name"
(cd once && while read -r digest file; do echo "<a href=\"$file#sha256=$digest\">$file</a><br>"; done <SHA256SUMS) >"simple/$name/index.html"
export UV_CACHE_DIR="$PWD/cache" UV_TOOL_DIR="$PWD/tools" UV_TOOL_BIN_DIR="$PWD/bin"
index="local=file://$PWD/simple"
quietly uvx --quiet --index "$index" --from "$name==$version" swarm-node --version && cat log
SWARM_NODE_MODEL__NAME=rare uvx --quiet --index "$index" --from "$name==$version" swarm-node run --home home \
    --max-rounds 2 --network.no-enabled >log 2>&1 || { tail -n 30 log; exit 1; }
grep -c RoundDone home/events.jsonl | sed 's/$/ rounds trained/'

step "list its parts (CycloneDX)"
quietly uv tool install --quiet --index "$index" "$name==$version"
cyclonedx-py environment --pyproject source/pyproject.toml --output-reproducible --spec-version 1.6 \
    --output-file "once/$name-$version.cdx.json" "tools/$name"
python - "once/$name-$version.cdx.json" <<'END'
import json, sys
bill = json.load(open(sys.argv[1]))
parts = bill["components"]
licensed = sum(bool(part.get("licenses")) for part in parts)
print(f"CycloneDX {bill['specVersion']}, valid: {len(parts)} parts, {licensed} with their licences")
END

step image
base=${BASE:-$(sed -n 's/^ARG BASE=//p' source/Dockerfile)}
if ! docker info >/dev/null 2>&1; then
    echo "skipped: no Docker engine answers here"
elif ! docker image inspect "$base" >/dev/null 2>&1 && ! docker pull -q "$base" >/dev/null 2>&1; then
    echo "skipped: its base image cannot be had here (BASE=IMAGE names another)"
else
    for wheel in "${PIP_FIND_LINKS:-none}"/torch-*.whl; do [ ! -f "$wheel" ] || cp "$wheel" source/docker/wheels; done
    quietly docker build -q --build-arg BASE="$base" -t "$name:$tag" source
    source/docker/check.sh "$name:$tag"
fi

step site
zensical=$(sed -n 's/^docs = \["\(zensical[^"]*\)".*/\1/p' source/pyproject.toml)
quietly uv run --quiet --no-project --with "$zensical" python source/docs/make_site.py && tail -n 1 log
step done
