#!/bin/sh
# unpack.sh PROGRAM PACKAGE FOLDER: a server for the tests, where it is not installed: Debian's packages, unpacked below
# FOLDER. Needs no root. PROGRAM is a path below / or FOLDER, and may be a pattern.
set -u
cd "$(dirname "$0")" || exit 1
program=$1
package=$2
folder=$3

for root in "" "$folder"; do
    # shellcheck disable=SC2086
    ls "$root"/$program >/dev/null 2>&1 && exit 0
done

hint() {
    echo "tests/unpack.sh: $*; the tests that need it will skip. On Debian or Ubuntu: sudo apt-get install $package" >&2
    exit 0
}
command -v apt-get >/dev/null 2>&1 && command -v dpkg >/dev/null 2>&1 || hint "$package is not installed"

packages() { apt-get -s install --no-install-recommends "$package" 2>/dev/null | awk '$1 == "Inst" { print $2 }'; }
wanted=$(packages)
if [ -z "$wanted" ] && [ "$(id -u)" = 0 ]; then
    apt-get update -qq >/dev/null 2>&1
    wanted=$(packages)
fi
[ -n "$wanted" ] || hint "Debian's packages are not known here"

echo "tests/unpack.sh: getting $package"
mkdir -p "$(dirname "$folder")"
aside=$(mktemp -d "$folder.XXXXXX") || exit 1
trap 'rm -rf "$aside"' EXIT
chmod 755 "$aside"
# shellcheck disable=SC2086
(cd "$aside" && apt-get download -q $wanted >/dev/null 2>&1) || hint "Debian's packages could not be downloaded"
for each in "$aside"/*.deb; do
    dpkg -x "$each" "$aside/root" || hint "$each could not be unpacked"
done
mv "$aside/root" "$folder"
