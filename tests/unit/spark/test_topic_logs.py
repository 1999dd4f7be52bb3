"""What the source makes of a cluster's answers about its topics: errors, open transactions, partitions that are not
there.
"""

from types import SimpleNamespace
from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.base.ids import TopicPartition
from headwater.client.errors import BootstrapFailed
from headwater.client.reactor.kernel import Future, Kernel
from headwater.client.types import EARLIEST, LATEST, READ_COMMITTED, Topic
from headwater.spark import topic_logs
from headwater.spark.offset_options import LogFacts, parse_offsets
from headwater.spark.options import parse_source_options

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
METADATA = "metadata"


def topic(
    name: str, partitions: int, error: ErrorCode = ErrorCode.NONE, topic_id: bytes = b"\1", leader: int = 1
) -> Topic:
    found: list[Any] = [SimpleNamespace(partition=number, leader=leader) for number in range(partitions)]
    return Topic(name, topic_id, False, found, error)


class FakeAdmin:
    """Logs from 0 on: `stable` is where readers of committed records are told that they end, `written` where they do.

    `bursts`: what was asked before the next answer came. Answers come when nothing can be done without them.
    """

    def __init__(self, answers: list[Any], stable: int = 5, written: int = 5) -> None:
        self.answers = answers
        self.ends = {True: stable, False: written}
        self.bursts: list[list[Any]] = []
        self.failure: Exception | None = None
        self.leader_hangs = False
        self.kernel = Kernel(SimpleNamespace(), lambda: 0.0)  # type: ignore[arg-type]
        self._waiting: list[Future[None]] = []
        self.session = SimpleNamespace(deadline=lambda: 0, pause=self._pause, refresh=self._refresh, kernel=self.kernel)

    def run(self, what: Any) -> Any:
        task = self.kernel.spawn(what(self.session))
        while not task.done:
            self.bursts.append([])
            self.kernel.run_ready()
            waiting, self._waiting = self._waiting, []
            assert waiting or task.done, "waits for what will not come"
            for each in waiting:
                each.resolve(None)
        return task.result()

    async def ask(self, question: Any) -> None:
        self.bursts[-1].append(question)
        answered: Future[None] = Future()
        self._waiting.append(answered)
        await answered

    async def _pause(self, attempt: int, deadline: float) -> bool:
        return True

    async def _refresh(self, names: list[str] | None) -> list[Topic]:
        await self.ask(METADATA)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        topics: list[Topic] = answer() if callable(answer) else answer
        return topics

    async def list_offsets(
        self, session: Any, wanted: dict[TopicPartition, int], *, isolation_level: int
    ) -> dict[TopicPartition, Any]:
        assert session is self.session
        if not wanted:
            return {}
        (which,) = set(wanted.values())
        end = self.ends[isolation_level == READ_COMMITTED]
        await self.ask(which)
        if self.leader_hangs:
            await Future()
        if self.failure is not None:
            raise self.failure
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
    assert admin.bursts == [[METADATA], [EARLIEST, LATEST], []]


def test_a_look_at_a_cluster_that_has_not_changed_waits_for_one_burst_of_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    admin = FakeAdmin([[topic("a", 2)]])
    there = logs_of(monkeypatch, admin)
    there.since({A0: 3, A1: 3})
    admin.bursts.clear()
    admin.ends = {True: 7, False: 7}
    assert there.since({A0: 5, A1: 5}, lambda _: admin.ask("group")) == dict.fromkeys((A0, A1), LogFacts(0, 7))
    assert sorted(admin.bursts.pop(0), key=str) == sorted([METADATA, EARLIEST, LATEST, "group"], key=str)
    assert not any(admin.bursts)


@pytest.mark.parametrize(
    "changed",
    [topic("a", 1, topic_id=b"\2"), topic("a", 1, leader=2), topic("a", 2)],
    ids=["made anew", "led by another", "one partition more"],
)
def test_ends_that_were_asked_before_the_cluster_was_known_to_have_changed_do_not_count(
    monkeypatch: pytest.MonkeyPatch, changed: Topic
) -> None:
    """They may be those of the topic before, or of a leader that was deposed."""

    def now() -> list[Topic]:
        admin.ends = {True: 8, False: 8}
        return [changed]

    admin = FakeAdmin([[topic("a", 1)], now])
    there = logs_of(monkeypatch, admin)
    assert there.since({A0: 3}) == {A0: LogFacts(0, 5)}
    assert {fact.latest for fact in there.since({A0: 3}).values()} == {8}


def test_a_topic_that_is_gone_is_gone_though_its_leader_answers_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = FakeAdmin([[topic("a", 1)], [topic("a", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]])
    there = logs_of(monkeypatch, admin)
    there.since({A0: 3})
    admin.leader_hangs = True
    assert there.since({A0: 3}) == {}


@pytest.mark.parametrize(
    "unknown", [topic("a", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), topic("a", 1)], ids=["topic", "partition"]
)
def test_one_broker_that_does_not_know_a_topic_is_not_believed(monkeypatch: pytest.MonkeyPatch, unknown: Topic) -> None:
    """It had just started, or lagged behind: all records of the topic were read a second time."""
    admin = FakeAdmin([[topic("a", 2)], [unknown], [unknown], [topic("a", 2)]])
    there = logs_of(monkeypatch, admin)
    asked = []

    async def tell(_: Any) -> None:
        asked.append("group")

    there.since({A0: 3, A1: 3}, tell)
    assert there.since({A0: 3, A1: 3}, tell) == dict.fromkeys((A0, A1), LogFacts(0, 5))
    assert asked == ["group", "group"]


def test_a_partition_that_the_stream_does_not_read_yet_is_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = FakeAdmin([[topic("a", 2)], [topic("a", 1)]])
    there = logs_of(monkeypatch, admin)
    there.since({A0: 3})
    admin.bursts.clear()
    assert there.since({A0: 3}) == {A0: LogFacts(0, 5)}
    assert [each for burst in admin.bursts for each in burst].count(METADATA) == 1


def test_what_is_done_beside_a_look_is_done_though_the_look_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = FakeAdmin([KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "refused")])
    told = []

    async def tell(_: Any) -> None:
        await admin.ask("group")
        await admin.ask("group, once more")
        told.append("told")

    with pytest.raises(KafkaError, match="refused"):
        logs_of(monkeypatch, admin).since({A0: 3}, tell)
    assert told == ["told"]


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


@pytest.mark.parametrize(
    ("written", "isolation", "ending", "held_back"),
    [
        (9, "read_committed", "latest", {A0}),
        (12, "read_committed", '{"a": {"0": -1}}', {A0}),
        (8, "read_committed", "latest", set()),
        (12, "read_committed", '{"a": {"0": 4}}', set()),
        (12, "read_uncommitted", "latest", set()),
    ],
    ids=["to the end", "more behind it", "cut off", "an end that was named", "a reader of all"],
)
def test_a_batch_that_begins_behind_an_open_transaction_is_told_from_one_whose_log_was_cut_off(
    monkeypatch: pytest.MonkeyPatch, written: int, isolation: str, ending: str, held_back: set[TopicPartition]
) -> None:
    admin = FakeAdmin([[topic("a", 1)]], stable=5, written=written)
    there = logs_of(monkeypatch, admin, subscribe="a", **{"kafka.isolation.level": isolation})
    if isolation == "read_uncommitted":
        admin.ends[False] = 5
    end = there.offsets_at(parse_offsets("endingOffsets", ending), "endingOffsets", or_latest=True)
    assert there.held_back({A0: 9}, end) == held_back


def test_where_a_log_ends_is_not_asked_twice_in_the_ordinary_course(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = FakeAdmin([[topic("a", 1)]], stable=5, written=9)
    there = logs_of(monkeypatch, admin)
    assert there.since({A0: 5}) == {A0: LogFacts(0, 5)}
    assert there.since({A0: 2}) == {A0: LogFacts(0, 5)}
    assert [each for burst in admin.bursts for each in burst].count(LATEST) == 2


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
