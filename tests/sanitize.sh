#!/bin/sh
# The compiled codec of records, counts and columns of Streams and hot paths of Produce and Fetch under the address and
# undefined-behaviour sanitizers: builds them into a copy of the sources and runs their tests there. Any access outside
# of a buffer ends the run. Needs gcc.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
copy=build/sanitized
rm -rf "$copy"
mkdir -p "$copy"
cp -r src/headwater "$copy"
rm -f "$copy"/headwater/records/_codec*.so "$copy"/headwater/schemas/_columns*.so "$copy"/headwater/streams/_counting*.so "$copy"/headwater/streams/_cells*.so "$copy"/headwater/server/_produce*.so "$copy"/headwater/server/_fetch*.so
suffix=$($python -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
include=$($python -c 'import sysconfig; print(sysconfig.get_paths()["include"])')
build() {
    gcc -shared -fPIC -O1 -g -std=c11 -fno-omit-frame-pointer -fsanitize=address,undefined \
        -fno-sanitize-recover=undefined -I"$include" "src/headwater/$1/$3/"*.c -o "$copy/headwater/$1/$2$suffix"
}
build records _codec native
build schemas _columns native
build streams _counting native
build streams _cells native/cells
build server _produce native
build server _fetch native/fetch
LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so) $(gcc -print-file-name=libstdc++.so)"
# Python frees little at its end, so leaks are not looked for; its own allocator would hide what is read past a block.
export LD_PRELOAD ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc PYTHONPATH="$copy"
$python -c 'from headwater.records import _codec; assert "sanitized" in _codec.__file__, _codec.__file__'
$python -c 'from headwater.schemas import _columns; assert "sanitized" in _columns.__file__, _columns.__file__'
$python -c 'from headwater.streams import _counting; assert "sanitized" in _counting.__file__, _counting.__file__'
$python -c 'from headwater.streams import _cells; assert "sanitized" in _cells.__file__, _cells.__file__'
$python -c 'from headwater.server import _produce; assert "sanitized" in _produce.__file__, _produce.__file__'
$python -c 'from headwater.server import _fetch; assert "sanitized" in _fetch.__file__, _fetch.__file__'
# Hypothesis' own profile `ci` has no deadlines: all is slow here.
exec $python -m pytest --hypothesis-profile=ci tests/property/test_records.py tests/property/test_records_codec.py tests/property/test_log_scan.py tests/unit/records tests/unit/schemas/test_avro_columns.py tests/unit/schemas/test_protobuf_columns.py \
    tests/unit/server/test_hot_path.py tests/unit/server/test_hot_path_and_general_way.py \
    tests/unit/server/test_commit_path.py tests/unit/server/test_decision_path.py tests/unit/server/test_transaction_path.py \
    tests/unit/server/test_hot_fetch.py tests/unit/server/test_hot_fetch_random.py tests/unit/server/test_hot_fetch_damage.py tests/unit/server/test_hot_fetch_followers.py \
    tests/unit/streams/slot/test_output_tables.py tests/unit/streams/test_native_cells.py tests/property/test_streams_lane.py::test_counts_of_the_compiled_module_are_those_of_the_nodes \
    tests/unit/server/test_sending.py tests/hostile/test_fuzz_targets.py "$@"
