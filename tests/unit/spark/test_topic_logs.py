"""What the source makes of a cluster's answers about its topics: errors, open transactions, partitions that are not
there.
"""

import asyncio
import inspect
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.base.ids import TopicPartition
from headwater.client.errors import BootstrapFailed
from headwater.client.types import EARLIEST, LATEST, READ_COMMITTED, Topic
from headwater.spark import topic_logs
from headwater.spark.offset_options import LogFacts
from headwater.spark.options import parse_source_options

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def topic(name: str, partitions: int, error: ErrorCode = ErrorCode.NONE, topic_id: bytes = b"\1") -> Topic:
    found: list[Any] = [SimpleNamespace(partition=number) for number in range(partitions)]
    return Topic(name, topic_id, False, found, error)


class FakeAdmin:
    """Logs from 0 on: `stable` is where readers of committed records are told that they end, `written` where they do.

    `asked`: for each time that somebody waited for offsets, what was asked for meanwhile.
    """

    def __init__(self, answers: list[list[Topic] | Exception], stable: int = 5, written: int = 5) -> None:
        self.answers = answers
        self.ends = {True: stable, False: written}
        self.asked: list[list[int]] = []
        self.failure: Exception | None = None
        self.session = SimpleNamespace(
            deadline=lambda: 0,
            pause=lambda attempt, deadline: True,
            refresh=lambda names: self._next(),
            kernel=SimpleNamespace(all_of=self._all_of),
        )

    def _next(self) -> Any:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def run(self, what: Any) -> Any:
        outcome = what(self.session)
        return asyncio.run(outcome) if inspect.iscoroutine(outcome) else outcome

    async def _all_of(self, questions: list[Any]) -> list[Any]:
        self.asked.append([])
        return await asyncio.gather(*questions, return_exceptions=True)

    async def list_offsets(
        self, session: Any, wanted: dict[TopicPartition, int], *, isolation_level: int
    ) -> dict[TopicPartition, Any]:
        assert session is self.session
        self.asked[-1] += set(wanted.values())
        if self.failure is not None:
            raise self.failure
        end = self.ends[isolation_level == READ_COMMITTED]
        return {each: SimpleNamespace(offset=0 if at == EARLIEST else end) for each, at in wanted.items()}


def logs_of(monkeypatch: pytest.MonkeyPatch, admin: FakeAdmin, **options: str) -> topic_logs.TopicLogs:
    monkeypatch.setattr(topic_logs, "open_admin", lambda *_: admin)
    monkeypatch.setattr(topic_logs, "list_offsets", admin.list_offsets)
    given = {"kafka.bootstrap.servers": "h:1", **(options or {"subscribe": "a"})}
    return topic_logs.TopicLogs(parse_source_options(given, streaming=True))


def test_a_look_asks_for_both_ends_at_once_the_earliest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small batch waits for one answer less. In this order a log that is trimmed meanwhile never seems to end before
    it begins.
    """
    admin = FakeAdmin([[topic("a", 2)]])
    assert logs_of(monkeypatch, admin).since({A0: 3, A1: 3}) == dict.fromkeys((A0, A1), LogFacts(0, 5))
    assert admin.asked == [[EARLIEST, LATEST]]


def test_an_offset_question_that_fails_is_the_error_of_the_look(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = FakeAdmin([[topic("a", 1)]])
    admin.failure = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "topic 'a'")
    with pytest.raises(KafkaError, match="topic 'a'"):
        logs_of(monkeypatch, admin).since({A0: 3})


def test_partitions_that_are_gone_are_left_out_of_offsets_and_other_errors_raised() -> None:
    at: Any = SimpleNamespace(offset=7)
    gone = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "gone")
    assert topic_logs.offsets_there({A0: at, A1: gone}) == {A0: 7}
    with pytest.raises(KafkaError, match="refused"):
        topic_logs.offsets_there({A0: at, A1: KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "refused")})


@pytest.mark.parametrize(
    ("written", "latest"), [(9, 9), (12, 9), (8, 5)], ids=["read to the end", "more behind it", "cut off"]
)
def test_an_open_transaction_before_the_start_does_not_make_a_log_look_cut_off(
    monkeypatch: pytest.MonkeyPatch, written: int, latest: int
) -> None:
    """A checkpoint of a reader of all records was taken over; the topic was read again from its beginning."""
    there = logs_of(monkeypatch, FakeAdmin([[topic("a", 1)]], stable=5, written=written))
    assert there.since({A0: 9}) == {A0: LogFacts(0, latest)}


def test_where_a_log_ends_is_not_asked_twice_in_the_ordinary_course(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = FakeAdmin([[topic("a", 1)]], stable=5, written=9)
    there = logs_of(monkeypatch, admin)
    assert there.since({A0: 5}) == {A0: LogFacts(0, 5)}
    assert there.since({A0: 2, A1: 7}) == {A0: LogFacts(0, 5)}
    assert len(admin.asked) == 2


def test_a_topic_that_may_not_be_read_is_not_taken_for_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The query would have read nothing, or gone on without the topic, without a word."""
    refused = [topic("a", 0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
    for options in ({"subscribe": "a"}, {"subscribePattern": "a.*"}):
        there = logs_of(monkeypatch, FakeAdmin([refused]), **options)
        for ask in (lambda there=there: there.facts(must_exist=True), lambda there=there: there.since({A0: 3})):
            with pytest.raises(KafkaError, match="topic 'a'"):
                ask()
    assert logs_of(monkeypatch, FakeAdmin([refused]), subscribePattern="b.*").facts(must_exist=False) == {}


def test_what_passes_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    passing = [topic("a", 0, ErrorCode.LEADER_NOT_AVAILABLE)]
    admin = FakeAdmin([passing, BootstrapFailed([]), [topic("a", 2)]])
    assert logs_of(monkeypatch, admin).facts(must_exist=True) == dict.fromkeys((A0, A1), LogFacts(0, 5))


def test_a_partition_that_is_assigned_and_not_there_is_an_error_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    there = logs_of(monkeypatch, FakeAdmin([[topic("a", 1)]]), assign='{"a": [0, 1]}')
    with pytest.raises(UserError, match="There is no partition a-1"):
        there.facts(must_exist=True)
    assert there.since({A0: 5}) == {A0: LogFacts(0, 5)}


def test_a_topic_that_is_not_there_is_an_error_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    there = logs_of(monkeypatch, FakeAdmin([[topic("a", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]]))
    with pytest.raises(UserError, match="There is no topic 'a'"):
        there.facts(must_exist=True)
    assert there.since({A0: 5}) == {}


def test_a_topic_made_anew_between_two_looks_is_noticed_by_its_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long its log is by then: what lay before the start in the new one was never read."""
    looks: list[Any] = [[topic("a", 1, topic_id=each)] for each in (b"\1", b"\2", b"\2", b"\2")]
    there = logs_of(monkeypatch, FakeAdmin(looks))
    assert not there.since({A0: 3})[A0].anew
    there.accept_topics()
    assert there.since({A0: 3})[A0].anew
    assert there.since({A0: 3})[A0].anew, "a stream that waits for more records has not taken note yet"
    there.accept_topics()
    assert not there.since({A0: 0})[A0].anew


def test_brokers_that_give_topics_no_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[Any] = [[topic("a", 1, topic_id=each)] for each in (bytes(16), b"\1", bytes(16))]
    there = logs_of(monkeypatch, FakeAdmin(looks))
    for _ in range(3):
        assert not there.since({A0: 3})[A0].anew
        there.accept_topics()
