#!/bin/sh
# PostgreSQL for the tests, where it is not installed: Debian's packages, unpacked below target/postgres. Needs no root.
set -u
cd "$(dirname "$0")" || exit 1

for root in "" target/postgres; do
    ls "$root"/usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 && exit 0
done

hint() {
    echo "tests/spark/get_postgres.sh: $*; its tests will skip. On Debian or Ubuntu: sudo apt-get install postgresql" >&2
    exit 0
}
command -v apt-get >/dev/null 2>&1 && command -v dpkg >/dev/null 2>&1 || hint "PostgreSQL is not installed"

packages() { apt-get -s install --no-install-recommends postgresql 2>/dev/null | awk '$1 == "Inst" { print $2 }'; }
wanted=$(packages)
if [ -z "$wanted" ] && [ "$(id -u)" = 0 ]; then
    apt-get update -qq >/dev/null 2>&1
    wanted=$(packages)
fi
[ -n "$wanted" ] || hint "Debian's packages are not known here"

echo "tests/spark/get_postgres.sh: getting PostgreSQL"
mkdir -p target
aside=$(mktemp -d target/postgres.XXXXXX) || exit 1
trap 'rm -rf "$aside"' EXIT
chmod 755 "$aside"
# shellcheck disable=SC2086
(cd "$aside" && apt-get download -q $wanted >/dev/null 2>&1) || hint "Debian's packages could not be downloaded"
for package in "$aside"/*.deb; do
    dpkg -x "$package" "$aside/root" || hint "$package could not be unpacked"
done
mv "$aside/root" target/postgres
