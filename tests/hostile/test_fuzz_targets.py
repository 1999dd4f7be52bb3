"""F25: what `make fuzz` looks for at length, for a moment: the handlers, the compiled paths, the reader of records, the
decoders by schemas and the parsers of schemas on damaged bytes.

Frames stand in buffers that end where they end: under `make sanitize`, whatever is read or written past them ends the
run.
"""

import random
from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from compat.support.quick import lasting
from headwater.records.batch import HEADER_BYTES
from headwater.records.builder import build_batch
from headwater.records.reader import Record
from headwater.schemas import SchemaType
from headwater.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from headwater.wire.registry import request_class
from hostile.support import column_targets, schema_targets
from hostile.support.frames import LIES, Known, Maker, damaged, served, whole
from hostile.support.targets import COMPILED, Targets, seed_for
from hostile.support.watched import Watched, watched

pytestmark = [pytest.mark.soak, pytest.mark.timeout(lasting(300, 3600))]

NUMBERS = st.integers(0, 1 << 32)
WHERE = st.lists(st.tuples(st.integers(0, 1 << 12), st.sampled_from(LIES), st.booleans()), max_size=3)


def many(few: int) -> settings:
    return settings(
        max_examples=lasting(few, 50 * few),
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    with watched(tmp_path_factory.mktemp("fuzzed"), num_partitions=2) as observed:
        wanted = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in ("orders", "users")])
        observed.ask(whole(3, 9, b"".join(wanted.encode(9))))
        observed.close()
        yield observed


@pytest.fixture(scope="module")
def targets(broker: Watched) -> Targets:
    return Targets(broker)


@pytest.fixture(scope="module")
def known(broker: Watched) -> Known:
    return Known(["orders", "users"], list(broker.node.broker.partitions_by_topic_id), ["readers"], ["m1"])


def changed(data: bytes, where: list[tuple[int, bytes, bool]], first: int) -> bytes:
    """With a few bytes put in or written over, not before `first`."""
    out = bytearray(data)
    for at, lie, is_put_in in where:
        begin = first + at % max(1, len(out) - first)
        out[begin : begin if is_put_in else begin + len(lie)] = lie
    return bytes(out)


def body(known: Known, number: int, key: int, version: int) -> bytes:
    return Maker(known, random.Random(number), mild=True).request(key, version)


@many(600)
@given(NUMBERS, WHERE)
def test_compiled_paths(targets: Targets, known: Known, number: int, where: list[tuple[int, bytes, bool]]) -> None:
    choices = [(key, v) for key, v in served() if key in COMPILED and v >= request_class(key).VERSIONS[0]]
    key, version = choices[number % len(choices)]
    targets.compiled(changed(seed_for(key, version, body(known, number, key, version), COMPILED), where, 2))


@many(300)
@given(NUMBERS, WHERE)
def test_requests(targets: Targets, known: Known, number: int, where: list[tuple[int, bytes, bool]]) -> None:
    choices = [(key, version) for key, version in served() if version >= request_class(key).VERSIONS[0]]
    key, version = choices[number % len(choices)]
    targets.requests(changed(seed_for(key, version, body(known, number, key, version)), where, 2))


@many(300)
@given(NUMBERS, st.integers(0, 4), WHERE)
def test_records(targets: Targets, number: int, codec: int, where: list[tuple[int, bytes, bool]]) -> None:
    chance = random.Random(number)
    records = [
        Record(at, at * 1000, b"k" * at, bytes(at), (("h", None),) * (at % 3)) for at in range(chance.randrange(40))
    ]
    data = bytearray(build_batch(records, codec=codec))
    if number % 2:
        data = bytearray(damaged(data, chance))
    targets.records(changed(bytes(data), where, HEADER_BYTES))


def test_the_seeds_of_columns_are_valid() -> None:
    """Or a fuzzer would have to find out first what a row is."""
    for seed in column_targets.seeds():
        compiled, twin, _ = column_targets.codecs()[seed[0]]
        row = pa.array([seed[2 : 2 + seed[1]]], pa.binary())
        assert compiled(row).to_pylist() == twin(row).to_pylist()


@many(600)
@given(st.sampled_from(column_targets.seeds()), WHERE, st.integers(0, 80))
def test_columns(seed: bytes, where: list[tuple[int, bytes, bool]], cut: int) -> None:
    data = changed(seed, where, 1)
    column_targets.columns(data[: len(data) - cut] if cut % 2 else data)


def test_the_seeds_of_schemas_are_valid() -> None:
    for seed in schema_targets.seeds():
        schema_targets.schemas(seed)
    assert all(not each.problem for each in schema_targets.others()[SchemaType.PROTOBUF])


@many(150)
@given(st.sampled_from(schema_targets.seeds()), WHERE, st.integers(0, 80))
def test_schemas(seed: bytes, where: list[tuple[int, bytes, bool]], cut: int) -> None:
    data = changed(seed, where, 1)
    schema_targets.schemas(data[: len(data) - cut] if cut % 2 else data)


@many(150)
@given(st.sampled_from(schema_targets.seeds()), st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=3))
def test_schemas_with_something_in_the_wrong_place(seed: bytes, where: list[tuple[int, int]]) -> None:
    for place, choice in where:
        seed = schema_targets.confused(seed, place, choice)
    schema_targets.schemas(seed)
