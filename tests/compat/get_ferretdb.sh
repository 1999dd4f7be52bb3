#!/bin/sh
# FerretDB, which speaks MongoDB's protocol: a pinned Go module, built into target/ferretdb. Takes minutes; for `make
# soak`.
set -u
cd "$(dirname "$0")" || exit 1
version=v1.24.2
program=$PWD/target/ferretdb/ferretdb
[ -x "$program" ] && exit 0

hint() {
    echo "tests/compat/get_ferretdb.sh: $*; the tests of MongoDB's connectors will skip" >&2
    exit 0
}
command -v go >/dev/null 2>&1 || hint "Go is not installed"
echo "tests/compat/get_ferretdb.sh: building FerretDB $version"
aside=$(mktemp -d) || exit 1
trap 'chmod -R u+w "$aside"; rm -rf "$aside"' EXIT
cd "$aside" || exit 1
go mod init aside >/dev/null 2>&1 || hint "Go cannot make a module"
module=$(go mod download -json "github.com/FerretDB/FerretDB@$version" | sed -n 's/^.*"Dir": "\(.*\)",$/\1/p')
[ -n "$module" ] || hint "its module could not be downloaded"
cp -r "$module" source && chmod -R u+w source && cd source || exit 1
# Its own build makes these, and the module does not have them.
for each in version branch commit package; do
    [ -f "build/version/$each.txt" ] || echo "$version" >"build/version/$each.txt"
done
mkdir -p "$(dirname "$program")"
CGO_ENABLED=0 go build -o "$program" ./cmd/ferretdb || hint "it could not be built"
