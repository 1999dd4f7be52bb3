"""Kafka's small text files, and the names of everything else."""

import pytest

from headwater.base.ids import TopicId, TopicPartition
from headwater.log import names
from headwater.log.checkpoint import (
    CheckpointError,
    CleanShutdown,
    crc_of_epochs,
    format_clean_shutdown,
    format_epochs,
    format_offsets,
    format_partition_metadata,
    format_properties,
    parse_clean_shutdown,
    parse_epochs,
    parse_offsets,
    parse_partition_metadata,
    parse_properties,
)
from headwater.log.leader_epochs import LeaderEpochs
from headwater.sim.disk import SimDisk


def test_an_offset_checkpoint() -> None:
    offsets = {TopicPartition("b", 1): 7, TopicPartition("a-b.c_d", 10): 12345678901}
    text = format_offsets(offsets)
    assert text == b"0\n2\na-b.c_d 10 12345678901\nb 1 7\n"
    assert parse_offsets(text) == offsets


@pytest.mark.parametrize("damaged", [b"", b"\0\0\0\0", b"1\n0\n", b"0\n2\na 0 1\n", b"0\n1\na 0\n", b"0\n1\na x 1\n"])
def test_a_damaged_checkpoint_is_refused(damaged: bytes) -> None:
    with pytest.raises(CheckpointError):
        parse_offsets(damaged)


def test_an_epoch_checkpoint() -> None:
    assert format_epochs([(0, 0), (3, 100)]) == b"0\n2\n0 0\n3 100\n"
    assert parse_epochs(b"0\n2\n0 0\n3 100\n") == [(0, 0), (3, 100)]
    with pytest.raises(CheckpointError):
        parse_epochs(b"0\n2\n3 100\n0 0\n")


def test_partition_metadata_has_the_topic_id_in_kafkas_base64() -> None:
    topic_id = TopicId(bytes.fromhex("fb" * 16))
    text = format_partition_metadata(topic_id)
    assert text == b"version: 0\ntopic_id: -_v7-_v7-_v7-_v7-_v7-w"
    assert parse_partition_metadata(text) == topic_id
    assert parse_partition_metadata(text + b"\n") == topic_id


@pytest.mark.parametrize("damaged", [b"", b"version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", b"version: 0\ntopic_id: AA"])
def test_damaged_partition_metadata_is_refused(damaged: bytes) -> None:
    with pytest.raises(CheckpointError):
        parse_partition_metadata(damaged)


def test_java_properties() -> None:
    text = b"#\n#Wed Jan 01 00:00:00 UTC 2025\nversion=1\nnode.id = 3\ncluster.id=a=b\n\n"
    assert parse_properties(text) == {"version": "1", "node.id": "3", "cluster.id": "a=b"}
    assert parse_properties(format_properties({"version": "0", "x": "y"})) == {"version": "0", "x": "y"}


def test_the_clean_shutdown_mark_of_new_and_old_kafkas() -> None:
    assert parse_clean_shutdown(b'{"version":0,"brokerEpoch":42}') == CleanShutdown(42)
    assert parse_clean_shutdown(b"") == CleanShutdown()
    assert parse_clean_shutdown(b"[]") is None


def test_a_flipped_bit_anywhere_in_our_clean_shutdown_mark_is_noticed() -> None:
    mark = CleanShutdown(42, {"recovery-point-offset-checkpoint": 7}, {"topic-0": 8})
    text = format_clean_shutdown(mark)
    assert parse_clean_shutdown(text) == mark
    for at in range(8 * len(text)):
        damaged = bytearray(text)
        damaged[at // 8] ^= 1 << at % 8
        assert parse_clean_shutdown(bytes(damaged)) is None, damaged


def test_the_checksum_of_leader_epochs_goes_by_what_they_say() -> None:
    assert crc_of_epochs(b"0\n1\n3  4\n\n") == crc_of_epochs(format_epochs([(3, 4)]))
    assert crc_of_epochs(b"0\n1\n3 5\n") != crc_of_epochs(format_epochs([(3, 4)]))
    assert crc_of_epochs(None) == crc_of_epochs(format_epochs([]))
    assert crc_of_epochs(b"damaged") == -1


@pytest.mark.parametrize("text", [b"0\n2\n3 104\n5 12", b"0\n2\n3 104\n5 12\n", b"0\n1\n3 4"])
def test_leader_epochs_that_a_power_loss_has_cut_are_not_believed(text: bytes) -> None:
    """Of `5 120` there was `5 12`, and the records behind 12 were of an epoch under which they had not been written."""
    with pytest.raises(CheckpointError):
        parse_epochs(text)


def test_directory_names() -> None:
    assert names.parse_partition_directory("my-topic-12") == TopicPartition("my-topic", 12)
    for other in (
        "lost+found",
        "topic-",
        "-1",
        "topic-x",
        "__cluster_metadata-0",  # the log of Apache Kafka's controllers
        "t-0." + "a" * 32 + "-delete",
        "t-0." + "a" * 32 + "-future",
    ):
        assert names.parse_partition_directory(other) is None
    name = names.deleted_directory_name(TopicPartition("x" * 249, 0), "a" * 32)
    assert len(name) <= 255
    assert names.is_deleted_directory(name)
    assert names.is_set_aside_directory("t-0." + "a" * 32 + "-stray")


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs(SimDisk(), "/e", list(entries))


@pytest.mark.parametrize(
    ("epoch", "answer"),
    [
        (-7, (-1, -1)),
        (-1, (-1, -1)),
        (0, (0, 5)),
        (1, (1, 10)),
        (2, (1, 10)),
        (3, (3, 30)),
        (4, (3, 30)),
        (5, (5, 99)),
        (6, (-1, -1)),
    ],
)
def test_where_an_epoch_ends(epoch: int, answer: tuple[int, int]) -> None:
    """Epoch 0 is not known any more: it ended where the first known one begins."""
    assert epochs((1, 5), (3, 10), (5, 30)).end_offset_for(epoch, 99) == answer


def test_a_log_without_epochs_has_no_end_for_an_absurd_one() -> None:
    """A request with epoch -2 broke an assertion."""
    assert epochs().end_offset_for(-2, 0) == (-1, -1)


def test_a_new_epoch_is_written_down_and_a_repeated_one_is_not() -> None:
    history = epochs()
    history.assign(2, 7)
    history.assign(2, 9)
    assert history.entries == [(2, 7)]
    assert history.dirty


def test_a_later_leader_overrules_what_a_loser_wrote() -> None:
    history = epochs((1, 0), (2, 10), (3, 20))
    history.assign(4, 15)
    assert history.entries == [(1, 0), (2, 10), (4, 15)]


def test_truncating_epochs() -> None:
    history = epochs((1, 0), (2, 10), (3, 20))
    history.truncate_from_end(10)
    assert history.entries == [(1, 0)]
    assert history.latest_epoch == 1
    history = epochs((1, 0), (2, 10), (3, 20))
    history.truncate_from_start(15)
    assert history.entries == [(2, 15), (3, 20)]
    history.truncate_from_start(15)
    assert history.entries == [(2, 15), (3, 20)]


def test_the_epoch_of_an_offset() -> None:
    history = epochs((1, 5), (3, 10))
    assert [history.epoch_of(offset) for offset in (4, 5, 9, 10, 99)] == [-1, 1, 1, 3, 3]
