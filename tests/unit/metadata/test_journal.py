"""The metadata journal: what is written is read, a torn tail is cut, damage in the middle is reported."""

import pytest

from headwater.base.errors import UserError
from headwater.base.ids import TopicId
from headwater.metadata.image import (
    AddressConfigured,
    BrokerConfigured,
    Change,
    ClientConfigured,
    ClusterImage,
    GroupConfigured,
    PartitionsAdded,
    ProducerIdsReserved,
    TopicConfigured,
    TopicCreated,
    TopicDeleted,
    UserConfigured,
)
from headwater.metadata.journal import decode_entries, encode_entry, snapshot

ORDERS = TopicId(bytes(range(16)))
CLICKS = TopicId(bytes(range(16, 32)))
HISTORY: list[list[Change]] = [
    [TopicCreated("orders", ORDERS, ((0,), (0,)), {"retention.ms": "1000"})],
    [TopicCreated("clicks", CLICKS, ((0,),), {}), ProducerIdsReserved(1000)],
    [PartitionsAdded(ORDERS, ((0,),)), TopicConfigured(ORDERS, {"cleanup.policy": "compact"})],
    [TopicDeleted(CLICKS), BrokerConfigured("", {"log.retention.ms": "5"}), GroupConfigured("g", {"a": "b"})],
    [
        UserConfigured("alice", {"producer_byte_rate": "5"}),
        ClientConfigured("alice", "", {"request_percentage": "5.0"}),
    ],
    [
        ClientConfigured(None, "c", {"producer_byte_rate": "6"}),
        AddressConfigured("", {"connection_creation_rate": "7"}),
    ],
]


def image_of(entries: list[list[Change]]) -> ClusterImage:
    image = ClusterImage("cluster")
    for changes in entries:
        for change in changes:
            image.apply(change)
    return image


def test_what_is_written_is_read() -> None:
    data = b"".join(encode_entry(changes) for changes in HISTORY)
    assert [changes for _, changes in decode_entries(data, "file")] == HISTORY


def test_the_image_follows_the_changes() -> None:
    image = image_of(HISTORY)
    assert list(image.ids_by_name) == ["orders"]
    assert len(image.topic("orders").partitions) == 3
    assert image.topic("orders").config == {"cleanup.policy": "compact"}
    assert image.next_producer_id == 1000


def test_every_torn_tail_leaves_the_entries_before_it() -> None:
    first = encode_entry(HISTORY[0])
    data = first + encode_entry(HISTORY[1])
    for length in range(len(first), len(data)):
        assert [end for end, _ in decode_entries(data[:length], "file")] == [len(first)]


def test_a_flipped_bit_in_the_middle_is_reported_not_skipped() -> None:
    first = bytearray(encode_entry(HISTORY[0]))
    first[20] ^= 1
    with pytest.raises(UserError, match="damaged at byte 0"):
        list(decode_entries(bytes(first) + encode_entry(HISTORY[1]), "file"))


def test_a_snapshot_makes_the_same_image() -> None:
    image = image_of(HISTORY)
    assert image_of([snapshot(image)]) == image


def test_a_tail_of_zeroes_is_a_torn_tail() -> None:
    """After a power loss a file may be longer than what was written to it. The CRC of nothing is zero."""
    first = encode_entry(HISTORY[0])
    for zeroes in (1, 8, 9, 4096):
        assert [end for end, _ in decode_entries(first + bytes(zeroes), "file")] == [len(first)]
    with pytest.raises(UserError, match=f"damaged at byte {len(first)}"):
        list(decode_entries(first + bytes(64) + encode_entry(HISTORY[1]), "file"))


def test_a_flipped_bit_in_a_length_does_not_pass_for_a_torn_tail() -> None:
    """A length that points behind the end of the file used to cut everything from there on, silently."""
    data = bytearray(b"".join(encode_entry(changes) for changes in HISTORY))
    data[1] ^= 1
    with pytest.raises(UserError, match="damaged at byte 0"):
        list(decode_entries(bytes(data), "file"))


LAST: list[list[Change]] = [
    [ProducerIdsReserved(1000)],
    [TopicConfigured(ORDERS, {"note": "spaces and @ are one bit away from nothing"})],
    [TopicCreated("a-topic-with-a-long-name", CLICKS, tuple((0,) for _ in range(300)), {})],  # more than a sector
]


@pytest.mark.parametrize("changes", LAST, ids=["short", "spaces", "long"])
def test_a_flipped_bit_in_the_last_entry_is_damage_and_no_torn_tail(changes: list[Change]) -> None:
    """It was cut, and a change that somebody had been told of was gone."""
    before = encode_entry(HISTORY[0])
    whole = before + encode_entry(changes)
    for position in range(len(before), len(whole)):
        for bit in range(8):
            data = bytearray(whole)
            data[position] ^= 1 << bit
            with pytest.raises(UserError, match=f"damaged at byte {len(before)}") as caught:
                list(decode_entries(bytes(data), "/the/file"))
            assert f"truncate -s {len(before)} /the/file" in caught.value.hint


@pytest.mark.parametrize("changes", LAST, ids=["short", "spaces", "long"])
def test_every_piece_of_the_last_entry_that_a_crash_can_leave_is_a_torn_tail(changes: list[Change]) -> None:
    """The file ends within it, or is as long as it was to be, or longer, and has zeroes where pages never got to the
    device.
    """
    before = encode_entry(HISTORY[0])
    whole = before + encode_entry(changes)
    left = [whole[:length] + bytes(rest) for length in range(len(before), len(whole)) for rest in (0, 1, 5000)]
    left += [whole[:length].ljust(len(whole), b"\0") for length in range(len(before), len(whole))]
    for data in left:
        assert [end for end, _ in decode_entries(data, "file")] == [len(before)]


def test_a_page_in_the_middle_that_never_got_to_the_device_is_a_torn_tail() -> None:
    before = encode_entry(HISTORY[0])
    whole = before + encode_entry(LAST[2])
    for begin, end in ((len(before), 512), (512, 1024), (1024, 1536), (len(before), 1024)):
        data = whole[:begin] + bytes(end - begin) + whole[end:]
        assert [end for end, _ in decode_entries(data, "file")] == [len(before)]


@pytest.mark.parametrize("in_sector", range(9))
def test_a_frame_that_lies_in_two_sectors_may_lose_the_first(in_sector: int) -> None:
    """So much of it that its length was gone, and the broker did not start.
    A flipped bit there is damage all the same.
    """
    long = encode_entry([BrokerConfigured("", {"note": "x" * 512})])
    before = encode_entry([BrokerConfigured("", {"note": "x" * (512 - in_sector + 512 - len(long))})])
    assert len(before) == 512 - in_sector
    whole = before + encode_entry(LAST[2])
    torn = whole[: len(before)] + bytes(in_sector) + whole[512:]
    if torn != whole:
        assert [end for end, _ in decode_entries(torn, "file")] == [len(before)]
    for position in range(len(before), len(before) + 8):
        for bit in range(8):
            data = bytearray(whole)
            data[position] ^= 1 << bit
            with pytest.raises(UserError, match=f"damaged at byte {len(before)}"):
                list(decode_entries(bytes(data), "file"))


def test_only_so_many_deleted_topics_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """All were, for ever, in memory and in the file. The oldest go, also when the file has been written anew."""
    monkeypatch.setattr("headwater.metadata.image.DELETED_TOPICS_MAX", 3)
    ids = [TopicId(bytes([255 - number]) * 16) for number in range(5)]
    image = image_of([[TopicCreated(f"topic-{at}", topic_id, ((0,),), {})] for at, topic_id in enumerate(ids)])
    for topic_id in ids[:4]:
        image.apply(TopicDeleted(topic_id))
    again = image_of([snapshot(image)])
    assert again == image
    again.apply(TopicDeleted(ids[4]))
    assert list(again.deleted_topics) == ids[2:]


def test_a_change_of_a_later_version_is_reported() -> None:
    from headwater.metadata import journal

    payload = b'[{"type":"TopicPainted","colour":"blue"}]'
    entry = journal._FRAME.pack(len(payload), journal.checksum.crc32c(payload)) + payload
    with pytest.raises(UserError, match="TopicPainted"):
        list(decode_entries(entry, "file"))
