"""The buffer behind `suppress`: rows leave it by time and key, whatever the order in which they came."""

import random

from headwater.streams.engine.suppress_buffer import SuppressBuffer
from headwater.streams.model.record import Change, InputRecord, Origin, Record, RecordMetadata
from headwater.streams.serdes.stock import TEXT
from headwater.streams.stores.key_value import KeyValues
from headwater.streams.stores.memory import MemoryState
from headwater.streams.stores.spec import StoreSpec

ORIGIN = Origin(RecordMetadata("in", 0, 7))


def test_rows_leave_by_time_and_key_also_after_a_reload() -> None:
    """Against a list that is sorted each time. A row that is changed while it waits keeps its time."""
    for seed in range(30):
        dice = random.Random(seed)
        buffer = SuppressBuffer(KeyValues(StoreSpec("held"), MemoryState(), None), TEXT, TEXT)
        model: dict[str, tuple[int, str]] = {}
        for number in range(200):
            what = dice.random()
            if what < 0.6:
                key, time, value = f"k{dice.randrange(40)}", dice.randrange(20), str(number)
                buffer.put(time, Record(key, Change(value, None), time), ORIGIN)
                model[key] = (model[key][0] if key in model else time, value)
            elif what < 0.95:
                first = min(((time, key.encode()) for key, (time, _) in model.items()), default=None)
                assert buffer.min_time == (None if first is None else first[0]), f"seed {seed}"
                if first is not None:
                    record, origin = buffer.pop()
                    assert (record.key.encode(), record.value.new) == (first[1], model.pop(record.key)[1]), (
                        f"seed {seed}"
                    )
                    assert origin == ORIGIN
            else:
                buffer.flush()
                buffer.reload()
            assert len(buffer) == len(model)
        in_order = sorted((time, key.encode(), value) for key, (time, value) in model.items())
        assert [value for _, value in buffer.all()] == [value for *_, value in in_order], f"seed {seed}"


def test_records_that_are_kept_for_dead_letters_count_among_the_bytes() -> None:
    """Else a buffer of small rows that were made of large records would have no limit."""
    buffer = SuppressBuffer(KeyValues(StoreSpec("held"), MemoryState(), None), TEXT, TEXT)
    buffer.put(1, Record("k", Change("v", None), 1), ORIGIN)
    without = buffer.size_bytes
    for size in (1000, 400):  # the last one is kept
        record = InputRecord("in", 0, 7, 1, b"key", bytes(size))
        buffer.put(1, Record("k", Change("v", None), 1), Origin(ORIGIN.metadata, record))
        assert buffer.size_bytes == without + 3 + size
    buffer.pop()
    assert buffer.size_bytes == 0
