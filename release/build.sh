#!/bin/sh
# build.sh COMMIT OUT: sdist, wheel and SHA256SUMS of a commit in the new folder OUT; the same bytes wherever and whenever
# it runs. Time stamps are those of the commit, owners and rights are nobody's, and the tools are those of tools.txt.
# PYTHON=.venvs/release/bin/python, which `make` sets, has them. Needs git and GNU tar.
set -eu
commit=$1 out=$2
python=$(cd "$(dirname "$PYTHON")" && pwd)/$(basename "$PYTHON")
SOURCE_DATE_EPOCH=$(git show -s --format=%ct "$commit^{commit}")
export SOURCE_DATE_EPOCH
mkdir "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git archive --prefix=source/ "$commit" | tar -x -C "$work"
chmod -R u=rwX,go=rX "$work/source"
umask 022

"$python" -m build --no-isolation --sdist --outdir "$work" "$work/source" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
sdist=$(basename "$work"/*.tar.gz)
mkdir "$work/unpacked"
tar -xzf "$work/$sdist" -C "$work/unpacked"
chmod -R u=rwX,go=rX "$work/unpacked"
# setuptools leaves times and owners in an sdist: the archive is written again.
tar -c --sort=name --format=ustar --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
    -C "$work/unpacked" "${sdist%.tar.gz}" | gzip -9n >"$out/$sdist"
"$python" -m build --no-isolation --wheel --outdir "$out" "$work/unpacked/${sdist%.tar.gz}" >"$work/log" 2>&1 ||
    { cat "$work/log"; exit 1; }
(cd "$out" && sha256sum -- *.tar.gz *.whl >SHA256SUMS && cat SHA256SUMS)
