#!/bin/sh
# stages.sh PYTEST: all tests, in three stages. A stage that fails does not keep the next from running, so that one run tells
# everything; the last lines name the stages that failed. Each shows its ten slowest tests.
set -u
trap 'exit 130' INT TERM
cd "$(dirname "$0")/.." || exit 1
pytest=$1
failed=""
# Every worker reads every test: 7 s instead of 19 where compiled tests are kept.
unset PYTHONDONTWRITEBYTECODE
# Where every test must pass, their order and their dice are the same each time, as Hypothesis' examples are (conftest.py).
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

# Most tests of real clients wait most of the time, so several files run at once.
stage single -n 4 --dist loadfile -m "not cluster and not spark"
# A ZooKeeper and several brokers each.
stage clusters -n 2 --dist loadfile -m cluster tests/chaos tests/compat
# JVMs that start: few at a time, because Spark gives a source's Python ten seconds for its start.
stage spark -n 2 --dist loadfile -m spark tests/spark

[ -z "$failed" ] && exit 0
echo "== failed:$failed" >&2
exit 1
