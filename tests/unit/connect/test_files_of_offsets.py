"""Source offsets: Apache's Java-serialized map, the store, and what may be committed."""

from pathlib import Path

import pytest

from headwater.base.errors import UserError
from headwater.connect.runtime.java_map_file import decode, encode
from headwater.connect.runtime.offsets import ConnectorOffsets, FileOffsetStore, MemoryOffsetStore, key_of
from headwater.connect.runtime.submitted import SubmittedRecords


@pytest.mark.parametrize("size", [0, 1, 2, 12, 13, 1000])
def test_a_map_comes_back(size: int) -> None:
    entries: dict[bytes, bytes | None] = {
        f"k{n}".encode(): None if n % 5 == 4 else bytes([n % 256]) * n for n in range(size)
    }
    assert decode(encode(entries), "f") == entries


def test_an_empty_file_is_an_empty_map() -> None:
    assert decode(b"", "f") == {}


@pytest.mark.parametrize("cut", [3, 30, 60, 90, 100])
def test_a_file_that_was_cut_off_is_refused(cut: int) -> None:
    with pytest.raises(UserError, match="is not a file of source offsets"):
        decode(encode({b"key": b"value"})[:cut], "f")


def test_another_class_is_refused_and_nothing_is_made_of_it() -> None:
    data = encode({b"key": b"value"}).replace(b"java.util.HashMap", b"java.util.HashSet")
    with pytest.raises(UserError, match="is not a file of source offsets"):
        decode(data, "f")


def test_a_length_that_lies_is_refused() -> None:
    data = encode({b"key": b"value"}).replace(b"\x00\x00\x00\x05value", b"\x7f\xff\xff\xffvalue")
    with pytest.raises(UserError, match="is not a file of source offsets"):
        decode(data, "f")


def test_the_store_keeps_offsets_in_its_file(tmp_path: Path) -> None:
    path = str(tmp_path / "offsets")
    offsets = ConnectorOffsets(FileOffsetStore(path), "c")
    offsets.write([({"filename": "a"}, {"position": 8}), ({"filename": "b"}, {"position": 2})])
    again = ConnectorOffsets(FileOffsetStore(path), "c")
    assert again.offset({"filename": "a"}) == {"position": 8}
    again.write([({"filename": "a"}, None)])
    assert ConnectorOffsets(FileOffsetStore(path), "c").all() == [({"filename": "b"}, {"position": 2})]
    assert [each.name for each in tmp_path.iterdir()] == ["offsets"]


def test_connectors_do_not_see_each_others_offsets() -> None:
    store = MemoryOffsetStore()
    ConnectorOffsets(store, "a").write([({"p": 1}, {"o": 1})])
    assert ConnectorOffsets(store, "b").offset({"p": 1}) is None


def test_a_partition_is_the_same_whatever_the_order_of_its_keys() -> None:
    """A Java map has an order of its own: what it wrote is found, and replaced in place."""
    store = MemoryOffsetStore({b'["c",{"z":1,"a":2}]': b'{"o":1}'})
    offsets = ConnectorOffsets(store, "c")
    assert offsets.offset({"a": 2, "z": 1}) == {"o": 1}
    offsets.write([({"a": 2, "z": 1}, {"o": 2})])
    assert store.all() == {b'["c",{"z":1,"a":2}]': b'{"o":2}'}


def test_keys_are_kafka_connects() -> None:
    assert key_of("local-file-source", {"filename": "test.txt"}) == b'["local-file-source",{"filename":"test.txt"}]'


def test_an_offset_may_be_committed_when_all_before_it_have_arrived() -> None:
    submitted = SubmittedRecords()
    first, second, other = (submitted.submit({"p": p}, {"o": o}) for p, o in ((1, 1), (1, 2), (2, 7)))
    assert first is not None
    assert second is not None
    assert other is not None
    second.arrived = other.arrived = True
    assert submitted.committable() == [({"p": 2}, {"o": 7})]
    assert submitted.waiting == 1
    first.arrived = True
    assert submitted.committable() == [({"p": 1}, {"o": 2})]
    assert submitted.committable() == []


def test_a_record_without_an_offset_has_nothing_to_commit() -> None:
    assert SubmittedRecords().submit(None, {"o": 1}) is None


def test_a_record_without_an_offset_has_its_place_in_the_order() -> None:
    submitted = SubmittedRecords()
    first, last = submitted.submit({"p": 1}, None), submitted.submit({"p": 1}, {"o": 1})
    assert first is not None
    assert last is not None
    last.arrived = True
    assert submitted.committable() == []
    first.arrived = True
    assert submitted.committable() == [({"p": 1}, {"o": 1})]
    assert submitted.submit(None, None) is None


def test_what_has_arrived_in_order_is_not_kept_record_by_record() -> None:
    submitted = SubmittedRecords()
    for number in range(100):
        made = submitted.submit({"p": 1}, {"o": 7} if number == 50 else None)
        assert made is not None
        made.arrived = True
    assert sum(map(len, submitted._by_partition.values())) < 4
    assert submitted.committable() == [({"p": 1}, {"o": 7})]
    assert submitted.committable() == []


class Counted(MemoryOffsetStore):
    def __init__(self, entries: dict[bytes, bytes | None]) -> None:
        super().__init__(entries)
        self.looked_through = 0

    def all(self) -> dict[bytes, bytes]:
        self.looked_through += 1
        return super().all()


def test_a_store_is_looked_through_only_for_what_it_does_not_have() -> None:
    """Each poll of an exactly-once source, also one that gave nothing, read all keys of all connectors as JSON."""
    foreign = b'["c", {"b": 1, "a": 2}]'
    store = Counted({key_of("c", {"p": 1}): b'{"o":1}', foreign: b'{"o":7}', b'["c",[1]]': b"{}", b"odd": b"{}"})
    offsets = ConnectorOffsets(store, "c")
    assert offsets.changes([]) == {}
    assert offsets.changes([({"p": 1}, {"o": 2})]) == {key_of("c", {"p": 1}): b'{"o":2}'}
    assert offsets.offset({"p": 1}) == {"o": 1}
    assert store.looked_through == 0
    assert offsets.offset({"a": 2, "b": 1}) == {"o": 7}
    assert offsets.offsets([{"a": 2, "b": 1}, {"p": 1}, {"new": 1}]) == [{"o": 7}, {"o": 1}, None]
    assert offsets.changes([({"a": 2, "b": 1}, {"o": 8}), ({"new": 1}, {"o": 0})]) == {
        foreign: b'{"o":8}',
        key_of("c", {"new": 1}): b'{"o":0}',
    }


def test_a_partition_that_two_have_written_is_read_as_we_write_it() -> None:
    ours, foreign = key_of("c", {"a": 1, "b": 2}), b'["c",{"b":2,"a":1}]'
    offsets = ConnectorOffsets(MemoryOffsetStore({ours: b'{"o":1}', foreign: b'{"o":2}'}), "c")
    assert offsets.offset({"b": 2, "a": 1}) == {"o": 1}
    assert offsets.changes([({"b": 2, "a": 1}, {"o": 3}), ({"new": 1}, None)]).keys() == {ours, key_of("c", {"new": 1})}
