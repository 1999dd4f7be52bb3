"""Which codec serves, and what both must do: each case runs with the compiled one and with its twin."""

import os
import subprocess
import sys
from typing import NamedTuple

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.records import codec, pure
from headwater.records.batch import read_header
from headwater.records.builder import build_batch, finish_section, restamped
from headwater.records.columns import NO_STOP, Layout, layout_of
from headwater.records.reader import Record, check_crc, read_records

CODECS = [pure]
try:
    from headwater.records import _codec

    CODECS.append(_codec)
except ImportError:
    pass

RECORDS = [Record(5, 1000, b"k", b"v", (("a", b"1"), ("b", None))), Record(6, 1001, None, b""), Record(7, 9, b"", None)]
BATCH = bytes(build_batch(RECORDS, base_offset=5))
HEADER = read_header(BATCH)
PAYLOAD = BATCH[61:]


class Pair(NamedTuple):
    key: str
    value: bytes | None


class Mine(NamedTuple):
    topic: str
    offset: int
    headers: tuple[Pair, ...]
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    epoch: int


@pytest.fixture(params=CODECS, ids=lambda module: module.__name__.rpartition(".")[2])
def module(request):
    return request.param


def test_the_compiled_one_is_built_where_these_tests_run():
    assert "headwater.records._codec" in sys.modules, "run `make venv`"
    assert codec.COMPILED or os.environ.get("HEADWATER_PURE")


@pytest.mark.parametrize(("setting", "compiled"), [("1", "False"), ("0", "True"), ("", "True")])
def test_the_environment_may_ask_for_the_twin(setting, compiled):
    script = "from headwater.records import codec; print(codec.COMPILED)"
    environment = {**os.environ, "HEADWATER_PURE": setting}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=240, check=True
    )
    assert done.stdout.strip() == compiled


def test_a_build_that_does_not_fit_the_python_beside_it_gives_way_to_the_twin():
    script = """
import collections
from headwater.records import columns
columns.Section = collections.namedtuple("Section", "one two")
from headwater.records import codec
print(codec.COMPILED)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=240, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("older", ["records._codec; del _codec.murmur2", "records.record; del record.corrupt"])
def test_a_build_that_has_or_finds_less_than_is_wanted_gives_way_to_the_twin(older):
    package, _, rest = older.partition(".")
    script = f"""
import headwater.records.pure
from headwater.{package} import {rest}
from headwater.records import codec
print(codec.COMPILED)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=240, check=True)
    assert done.stdout.strip() == "False"


def test_records_of_ones_own_class(module):
    layout = layout_of(Mine, Pair)
    template = Mine("t", 0, (), None, None, 0, 4)
    made = module.build_records(PAYLOAD, HEADER, 5, NO_STOP, layout, template)
    assert made[0] == Mine("t", 5, (("a", b"1"), ("b", None)), b"k", b"v", 1000, 4)
    assert [type(record) for record in made] == [Mine] * 3
    assert [type(pair) for pair in made[0].headers] == [Pair, Pair]
    assert [record.offset for record in module.build_records(PAYLOAD, HEADER, 6, 7, layout, template)] == [6]


def test_a_template_may_hold_anything(module):
    """Its items outlive the batch, and a cycle through one of them is found by the garbage collector."""
    import gc
    import weakref

    class Thing:
        pass

    thing = Thing()
    thing.records = module.build_records(
        PAYLOAD, HEADER, 0, NO_STOP, layout_of(Mine, Pair), Mine(thing, 0, (), None, None, 0, 4)
    )
    assert thing.records[0].topic is thing
    gone = weakref.ref(thing)
    del thing
    gc.collect()
    assert gone() is None


def test_log_append_time_is_that_of_the_batch(module):
    batch = bytes(build_batch(RECORDS, base_offset=5, log_append_time_ms=77))
    assert [each.timestamp for each in module.read_records(batch[61:], read_header(batch))] == [77, 77, 77]
    builder = module.ColumnBuilder()
    assert builder.append_batch(batch[61:], read_header(batch), b"t", 0, 6, NO_STOP) == 2
    columns = builder.finish()
    assert memoryview(columns.timestamp_us).cast("B").cast("q").tolist() == [77_000, 77_000]
    assert memoryview(columns.timestamp_type).cast("B").cast("i").tolist() == [1, 1]


def test_microseconds_are_clipped_where_they_do_not_fit(module):
    records = [Record(0, 2**63 - 1, None, None), Record(1, 2**62, None, None)]
    batch = bytes(build_batch(records))
    builder = module.ColumnBuilder()
    builder.append_batch(batch[61:], read_header(batch), b"t", 0, 0, NO_STOP)
    assert memoryview(builder.finish().timestamp_us).cast("B").cast("q").tolist() == [2**63 - 1] * 2


def test_a_builder_that_is_full_takes_nothing_more(module):
    """Int32 offsets reach 2 GiB, of topic names too."""
    topic = bytes(1 << 30)
    short = bytes(build_batch([Record(0, 0, None, None)]))
    arguments = (short[61:], read_header(short), b"", 0, 0, NO_STOP)
    builder = module.ColumnBuilder()
    builder.append_batch(*arguments)
    two = bytes(build_batch([Record(0, 0, None, None), Record(1, 0, None, None)]))
    large = (two[61:], read_header(two), topic, 0, 0, NO_STOP)
    assert builder.append_batch(*large) == -1
    assert builder.row_count == 1
    with pytest.raises(KafkaError) as caught:
        module.ColumnBuilder().append_batch(*large)
    assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize(
    ("layout", "template", "error"),
    [
        (Layout(dict, None, 0, 1, 2, 3, 4), (None,) * 5, TypeError),
        (Layout(Record, None, 0, 1, 2, 3, 5), (None,) * 5, ValueError),
        (Layout(Record, None, 0, 1, 2, 3, 3), (None,) * 5, ValueError),
        (Layout(Record, None, 0, 1, 2, 3, -1), (None,) * 5, ValueError),
        ((), (None,) * 5, TypeError),
    ],
)
def test_a_layout_that_cannot_be_is_refused(layout, template, error):
    with pytest.raises(error):
        _codec.build_records(PAYLOAD, HEADER, 0, NO_STOP, layout, template)


@pytest.mark.parametrize(
    "record",
    [(0, "text", None), (0, None, 5), (0, None, None, [("a",)]), (0, None, None, [(b"a", None)]), (2**63, None, None)],
)
def test_what_is_no_record_is_refused_and_leaves_the_batch_as_it_was(record):
    appender = _codec.BatchAppender(1000)
    appender.append(1, b"a", b"b")
    size_bytes = appender.size_bytes
    with pytest.raises((TypeError, ValueError, OverflowError)):
        appender.append(*record)
    assert (appender.count, appender.size_bytes) == (1, size_bytes)


def test_a_batch_is_full_when_the_next_record_does_not_fit(module):
    appender = module.BatchAppender(200)
    assert appender.append(1, None, bytes(300)) > 300  # the first always fits
    assert appender.append(2, None, b"") == 0
    assert appender.section().record_count == 1
    sizes = [appender.append(3, None, bytes(60)) for _ in range(3)]
    assert sizes == [61 + 68, 61 + 2 * 68, 0]


def test_keys_and_values_may_be_any_bytes(module):
    appender = module.BatchAppender(1000)
    appender.append(1, bytearray(b"a"), memoryview(b"xbx")[1:2], [("h", bytearray(b"c"))])
    assert read_records(finish_section(appender.section()), 1000) == [Record(0, 1, b"a", b"b", (("h", b"c"),))]


@pytest.mark.parametrize("compression", range(5))
def test_a_finished_batch_has_the_producers_facts(compression):
    appender = codec.BatchAppender(1000)
    for at in range(3):
        appender.append(10 + at, b"k", b"v" * 50)
    batch = appender.finish(codec=compression, producer_id=7, producer_epoch=2, base_sequence=30, transactional=True)
    header = read_header(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 30)
    assert (header.codec, header.is_transactional, header.record_count) == (compression, True, 3)
    assert (header.base_timestamp, header.max_timestamp, header.last_offset_delta) == (10, 12, 2)
    assert [record.offset for record in read_records(batch, 1000)] == [0, 1, 2]
    assert appender.count == 0


def test_a_batch_is_stamped_anew_for_a_retry():
    first = codec.BatchAppender(1000)
    first.append(1, b"k", b"v")
    batch = first.finish(codec=4, producer_id=7, producer_epoch=2, base_sequence=30)
    before = bytes(batch)
    again = restamped(batch, producer_id=8, producer_epoch=0, base_sequence=0)
    assert bytes(batch) == before  # it may still be in flight
    check_crc(again, read_header(again))
    header = read_header(again)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (8, 0, 0)
    assert read_records(again, 1000) == read_records(batch, 1000)
