"""Where the console consumer gets its records from."""

from collections.abc import Sequence
from typing import Any, cast

import pytest

from headwater.base.errors import UserError
from headwater.base.ids import TopicPartition
from headwater.cli.kafka import console_consumer
from headwater.cli.kafka.console_sources import GroupMember, as_fetched, member_settings
from headwater.cli.kafka.message_formatter import DefaultFormatter
from headwater.cli.kafka.options import Options
from headwater.client import Consumer
from headwater.client.consumer.record import ConsumerRecord
from headwater.client.positions import AtTime, Beginning, End, Window
from headwater.client.types import FetchedRecord, Header

RECORD = ConsumerRecord("t", 1, 7, 1000, 1, b"k", None, (("h", b"1"), ("g", None)), 3)
FETCHED = FetchedRecord("t", 1, 7, 1000, True, b"k", None, (Header("h", b"1"), Header("g", None)), 3, -1, -1, 0)


class Recorded:
    """A consumer that gives what it was told to, and remembers what was asked of it."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.on_assigned: Any = None

    def subscribe(self, topics: Any, *, on_assigned: Any) -> None:
        self.asked.append(("subscribe", topics))
        self.on_assigned = on_assigned

    def poll(self, timeout: float, *, max_records: int | None) -> list[ConsumerRecord]:
        self.asked.append(("poll", timeout, max_records))
        return [RECORD]

    def assignment(self) -> list[TopicPartition]:
        return [TopicPartition("t", 1)]

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.asked.append(("seek", partition, offset))


def test_a_member_gives_records_as_the_formatters_take_them() -> None:
    assert as_fetched(RECORD) == FETCHED
    consumer = Recorded()
    member = GroupMember(cast(Consumer, consumer), ["t"], 0.5)
    assert member.poll(3) == [FETCHED]
    assert consumer.asked == [("subscribe", ["t"]), ("poll", 0.5, 3)]


def test_a_member_reads_once_its_group_has_assigned_something_or_nothing() -> None:
    consumer = Recorded()
    member = GroupMember(cast(Consumer, consumer), ["t"], 0.5)
    assert not member.is_reading()
    consumer.on_assigned([])
    assert member.is_reading()


def test_what_was_not_printed_is_read_again_and_not_what_others_have_by_now() -> None:
    consumer = Recorded()
    member = GroupMember(cast(Consumer, consumer), ["t"], 0.5)
    later = FETCHED._replace(offset=8)
    member.give_back([FETCHED, later, FETCHED._replace(partition=2)])
    assert consumer.asked[1:] == [("seek", TopicPartition("t", 1), 7)]


def test_settings_of_a_member(capsys: pytest.CaptureFixture[str]) -> None:
    given = {"fetch.min.bytes": "5", "value.deserializer": "x", "zookeeper.connect": "y", "auto.offset.reset": "latest"}
    settings = member_settings("b:1", "g", given, from_beginning=True, isolation="read_committed")
    assert settings == {
        "client.id": "console-consumer",
        "fetch.min.bytes": "5",
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "bootstrap.servers": "b:1",
        "group.id": "g",
    }
    assert (
        capsys.readouterr().err == "Warning: there is no setting 'zookeeper.connect' of consumers. It has no effect.\n"
    )
    mine = member_settings("b:1", "g", {"client.id": "me"}, from_beginning=False, isolation=None)
    assert mine == {"client.id": "me", "bootstrap.servers": "b:1", "group.id": "g"}


def test_two_words_about_where_to_begin_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--bootstrap-server", "localhost:1", "--topic", "t", "--from-beginning"]
    assert console_consumer.script([*arguments, "--command-property", "auto.offset.reset=latest"]) == 1
    assert capsys.readouterr().err == (
        "Can't simultaneously specify --from-beginning and 'auto.offset.reset=latest', please remove one option\n"
    )


class Given:
    """A source that gives these records, at one poll each list, and keeps what was given back."""

    def __init__(self, *polls: list[FetchedRecord]) -> None:
        self.polls, self.given_back = [*polls], list[FetchedRecord]()

    def poll(self, most: int | None) -> list[FetchedRecord]:
        return self.polls.pop(0)[:most]

    def is_reading(self) -> bool:
        return True

    def give_back(self, records: Sequence[FetchedRecord]) -> None:
        self.given_back += records

    def close(self) -> None: ...


def test_records_that_were_printed_in_front_of_one_that_cannot_be_are_not_given_back(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """All were, so that the next member of the group printed them again."""
    records = [FETCHED._replace(offset=at, value=value) for at, value in enumerate((b"\1", b"\0", b"no", b"\1"))]
    source = Given(records)
    formatter = DefaultFormatter({"value.deserializer": "BooleanDeserializer"})
    with pytest.raises(UserError, match="Cannot print t-1 offset 2"):
        console_consumer._copy(source, formatter, Options({}))
    said = capsys.readouterr()
    assert (said.out, said.err) == ("true\nfalse\n", "Processed a total of 2 messages\n")
    assert source.given_back == records[2:]


def test_a_negative_timeout_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    """`--timeout-ms -1` ended with the first poll that found nothing."""
    options = Options({"timeout-ms": ["-1"], "max-messages": ["1"]})
    source = Given([], [], [FETCHED._replace(value=b"v")])
    assert console_consumer._copy(source, DefaultFormatter({}), options) == 0
    assert capsys.readouterr().out == "v\n"


@pytest.mark.parametrize(
    ("typed", "properties", "start"),
    [
        ({}, {}, End()),
        ({}, {"auto.offset.reset": "Earliest"}, Beginning()),
        ({}, {"auto.offset.reset": "smallest"}, Beginning()),
        ({}, {"auto.offset.reset": "latest"}, End()),
        ({}, {"auto.offset.reset": "by_duration:PT15M"}, AtTime(100_000)),
        ({"from-beginning": [None]}, {}, Beginning()),
        ({"offset": ["EARLIEST"]}, {}, Beginning()),
        ({"offset": ["latest"]}, {"auto.offset.reset": "earliest"}, End()),
    ],
)
def test_where_reading_without_a_group_begins(
    typed: dict[str, list[str | None]], properties: dict[str, str], start: Beginning | End | AtTime
) -> None:
    """`auto.offset.reset=by_duration:...` read from the end."""
    assert console_consumer.start_window(Options(typed), properties, 1_000_000) == Window(start)


@pytest.mark.parametrize("text", ["ealiest", "none", "by_duration:15m"])
def test_a_reset_that_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"auto\.offset\.reset"):
        console_consumer.start_window(Options({}), {"auto.offset.reset": text}, 0)


def test_an_isolation_that_there_is_not_is_refused() -> None:
    """Records of aborted transactions were shown."""
    assert console_consumer._isolation(Options({}), {"isolation.level": "READ_COMMITTED"}) == 1
    with pytest.raises(UserError, match=r"isolation\.level cannot be 'read_comitted'"):
        console_consumer._isolation(Options({}), {"isolation.level": "read_comitted"})


def test_a_group_and_a_partition_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--bootstrap-server", "localhost:1", "--topic", "t", "--partition", "0"]
    for group in (["--group", "g"], ["--command-property", "group.id=g"]):
        assert console_consumer.script([*arguments, *group]) == 1
        assert "Options group and partition cannot be specified together." in capsys.readouterr().err
