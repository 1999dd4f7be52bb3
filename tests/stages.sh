#!/bin/sh
# stages.sh PYTEST: all tests, in five stages. A stage that fails does not keep the next from running, so that one run
# tells everything; the last lines name the stages that failed. Each shows its ten slowest tests.
#
# What only computes (units; and models: properties, simulations) runs in the background, in the time that all others
# spend waiting: clients, clusters and, to the end, JVMs with Spark in them. It gives way to them (nice), so that they
# hardly notice.
set -u
cd "$(dirname "$0")/.." || exit 1
pytest=$1
failed=""
units=""
models=""
folder=$(mktemp -d) || exit 1
trap '[ -z "$units$models" ] || kill $units $models 2>/dev/null; rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM
# Every worker reads every test: 7 s instead of 19 where compiled tests are kept.
unset PYTHONDONTWRITEBYTECODE
# Where every test must pass, their order and their dice are the same each time, as Hypothesis' examples are
# (conftest.py).
order=""
[ "${HEADWATER_REQUIRE_ALL:-}" = 1 ] && order="--randomly-seed=1"

stage() { # stage NAME ARGUMENT...
    name=$1
    shift
    echo "== $name: $pytest $order $*"
    began=$(date +%s)
    # shellcheck disable=SC2086
    "$pytest" $order "$@" || failed="$failed $name"
    echo "== $name took $(($(date +%s) - began)) s"
}

background() { # background NAME ARGUMENT...: its output is shown at the end
    name=$1
    shift
    echo "== $name: $pytest $order $*" >"$folder/$name"
    # shellcheck disable=SC2086
    nice -n 15 "$pytest" $order "$@" >>"$folder/$name" 2>&1 &
}

ended() { # ended NAME PROCESS
    wait "$2" || failed="$failed $1"
    cat "$folder/$1"
}

# Two processes without workers: each reads its own tests alone and has nobody to report to, which is a tenth of their
# time. Beside the others a test may get one thirtieth of a processor, so its time is longer. Models are all that is in
# no other stage: properties, worlds.
background units --timeout=900 tests/unit
units=$!
background models --timeout=900 --ignore=tests/unit --ignore=tests/chaos --ignore=tests/compat --ignore=tests/hostile --ignore=tests/spark tests
models=$!
# Most tests of real clients wait most of the time, so several files run at once.
stage clients -n 4 --dist loadfile -m "not cluster and not spark" tests/compat tests/hostile tests/spark
# A ZooKeeper and several brokers each. The longest files come first (conftest.py), not those with most tests.
stage clusters -n 2 --dist loadfile --no-loadscope-reorder -m cluster tests/chaos tests/compat
# JVMs that start: few at a time, because Spark gives a source's Python ten seconds for its start. Each waits half of
# its time.
stage spark -n 3 --dist loadfile --no-loadscope-reorder -m spark tests/spark
ended models "$models"
models=""
ended units "$units"
units=""

[ -z "$failed" ] && exit 0
echo "== failed:$failed" >&2
exit 1
