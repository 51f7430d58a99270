#!/bin/sh
# locked.sh BIN LOCK: install what a lock names, each file by its hash, with BIN/pip. For the platform and Python of the
# lock alone; elsewhere, and where a file cannot be had, nothing is installed, and pyproject.toml's ranges have the word. A
# file that is not what the lock says ends it. Nothing is compiled: pip would do it on one core.
set -eu
bin=$1 lock=$2
here=$("$bin/python" -c 'import platform, sys
print("# Python %d.%d, %s. %s" % (*sys.version_info[:2], platform.machine(), sys.platform))')
case "$here" in
"$(head -n 1 "$lock" | cut -d. -f1-2). linux") ;;
*)
    echo "$lock is for another platform: installing by ranges"
    exit 0
    ;;
esac
said=$(mktemp)
trap 'rm -f "$said"' EXIT
if "$bin/pip" install --disable-pip-version-check --quiet --no-compile --require-hashes -r "$lock" 2>"$said"; then
    exit 0
fi
tail -n 5 "$said"
if grep -q 'DO NOT MATCH THE HASHES' "$said"; then
    exit 1
fi
echo "not all files of $lock can be had here: installing by ranges"
