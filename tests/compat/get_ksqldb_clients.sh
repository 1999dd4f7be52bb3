#!/bin/sh
# Clients of ksqlDB from npm, pinned in ksqldb_clients/package.json, into target/ksqldb_clients.
set -u
cd "$(dirname "$0")" || exit 1
folder=target/ksqldb_clients
cmp -s ksqldb_clients/package.json "$folder/.complete" && exit 0

hint() {
    echo "tests/compat/get_ksqldb_clients.sh: $*; the tests of ksqlDB's clients for Node.js will skip" >&2
    exit 0
}
command -v npm >/dev/null 2>&1 || hint "npm is not installed"
echo "tests/compat/get_ksqldb_clients.sh: getting the clients of ksqldb_clients/package.json"
rm -rf "$folder"
mkdir -p "$folder" && cp ksqldb_clients/package.json "$folder/" || exit 1
(cd "$folder" && npm install --silent --no-audit --no-fund --ignore-scripts >/dev/null 2>&1) || hint "npm could not get them"
cp ksqldb_clients/package.json "$folder/.complete"
