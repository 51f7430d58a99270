#!/bin/sh
# locked.sh [--by-ranges] BIN LOCK: installs the packages of a lock, each file by its hash, with BIN/pip. It compiles
# nothing, as pip would do that on one core.
#
# A lock is for one platform and Python. Elsewhere this installs nothing, and pyproject.toml's ranges apply. Where the
# lock is for this platform, it ends with code 1 and one line if a file has another hash, or cannot be had: nothing is
# installed without a hash because an index lacks a file, or hides it. --by-ranges, or BY_RANGES=1 in the environment
# (so that `make install BY_RANGES=1` has it), allows that: with a file that cannot be had, pyproject.toml's ranges
# apply. A file with another hash ends it even then.
#
# The lock has torch for the CPU. So where there is an NVIDIA card, the ranges apply, by which pip takes torch for CUDA,
# unless BY_RANGES=0 asks for the lock.
set -eu
ranges=${BY_RANGES:-}
if [ "$1" = --by-ranges ]; then
    ranges=1
    shift
fi
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
if [ "$ranges" != 0 ] && nvidia-smi -L 2>/dev/null | grep -q '^GPU'; then
    echo "an NVIDIA card is here, and $lock has torch for the CPU: installing torch for CUDA by ranges, without hashes"
    exit 0
fi
said=$(mktemp)
trap 'rm -f "$said"' EXIT
if "$bin/pip" install --disable-pip-version-check --quiet --no-compile --require-hashes -r "$lock" 2>"$said"; then
    exit 0
fi
if grep -q 'DO NOT MATCH THE HASHES' "$said"; then
    tail -n 5 "$said"
    echo "$lock: a file has another hash than the lock says; nothing was installed, do not use that index" >&2
    exit 1
fi
if [ "$ranges" = 1 ]; then
    echo "not all files of $lock can be had here: installing by ranges, without hashes"
    exit 0
fi
file=$(sed -n 's/.*satisfies the requirement \([^ ]*\).*/ (\1)/p' "$said" | head -n 1)
echo "$lock: not all of its files can be had here$file, and nothing was installed; name an index that has them, such as" \
    "PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu, or allow other versions, without hashes: BY_RANGES=1" >&2
exit 1
