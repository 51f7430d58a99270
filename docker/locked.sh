#!/bin/sh
# locked.sh BIN LOCK: installs the packages of a lock, each file by its hash, with BIN/pip. On another platform or
# Python than the lock's, or if a file cannot be had, it installs nothing, and pyproject.toml's ranges apply. A file
# with another hash ends it with code 1. It compiles nothing, as pip would do that on one core.
set -eu
bin=$1 lock=$2
here=$("$bin/python" -P -c 'import platform, sys
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
