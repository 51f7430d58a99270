#!/bin/sh
# needed.sh PYTHON: gets what `make install` needs of the system and lacks: that this Python can make virtual environments,
# and a C compiler with this Python's headers, by which pip builds pycosat for reasoning-gym. It says nothing where both
# are there.
set -eu
python=$1
version=$("$python" -P -c 'import sys; print("%d.%d" % sys.version_info[:2])')
compiler=$("$python" -P -c 'import os, sysconfig
print((os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0])')
headers=$("$python" -P -c 'import sysconfig; print(sysconfig.get_path("include"))')

missing=""
"$python" -P -c 'import ensurepip, venv' 2>/dev/null || missing="python$version-venv"
echo '#include <Python.h>' | "$compiler" -I "$headers" -E - >/dev/null 2>&1 ||
    missing="$missing gcc libc6-dev python$version-dev"
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null; then
    echo "make install needs what Debian calls" $missing "here: install that, and start again" >&2
    exit 1
fi
echo "make install needs" $missing "here: installing that"
sudo=$(test "$(id -u)" = 0 || echo sudo)
$sudo apt-get update -q
DEBIAN_FRONTEND=noninteractive $sudo apt-get install -qy --no-install-recommends $missing
