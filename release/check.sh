#!/bin/sh
# check.sh: all that a release needs, one step after the other, in a night on two cores (`make release-check`). A step that
# passed at this commit is not run again: after an interruption or a mended failure the same command goes on. What a step
# said is in runs/release/COMMIT/STEP.log. Last come the pages of results, each with what has changed since it was measured.
set -u
cd "$(dirname "$0")/.."
[ -z "$(git status --porcelain -- . :!docs/results/extras.md)" ] || { echo "commit your changes first: a release is a commit"; exit 2; }
done=runs/release/$(git rev-parse --short HEAD)
mkdir -p "$done"
failed=""
step() {
    name=$1; shift
    if [ -e "$done/$name.passed" ]; then echo "$name: passed before"; return; fi
    start=$(date +%s)
    if "$@" >"$done/$name.log" 2>&1; then
        touch "$done/$name.passed" && echo "$name: passed in $(($(date +%s) - start)) s"
    else
        failed="$failed $name" && echo "$name: FAILED, see $done/$name.log"
    fi
}
fuzz() { name=$1; shift; step "fuzz-$name" .venv/bin/python -m "lab.fuzzing.$name" "$@"; }

for step in ${STEPS:-lint docs drill oldest newest test test-long test-extras fuzz}; do
    case $step in
    drill) rm -rf "$done/drill" && step drill make drill DRILL="$done/drill" ;;
    fuzz)
        fuzz fuzz --inputs 1000000
        fuzz backups
        fuzz folders
        fuzz hostile --ours
        fuzz spellings
        ;;
    *) step "$step" make "$step" ;;
    esac
done
.venv/bin/python release/results.py || failed="$failed results"
[ -z "$failed" ] || { echo "not ready:$failed"; exit 1; }
echo "ready"
