"""The topic of schemas as a registry finds it: one that would lose schemas is refused. The brokers are made up here."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Generator, Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.client import AsyncProducer
from headwater.client.addresses import Address
from headwater.client.errors import BootstrapFailed, ConnectionFailed
from headwater.client.producer.types import ProducerFenced
from headwater.registry import schema_log
from headwater.registry.config import RegistryConfig
from headwater.registry.records import Key, Record, decode_value, encode_key, encode_value, noop
from headwater.registry.schema_log import NotLeading, SchemaLog, WriteFailed, WriteTimedOut, writer_settings
from unit.registry.silent_producer import SilentProducer

REFUSED = BootstrapFailed([ConnectionFailed(Address("host", 1), "nothing listens there", refused=True)])


class Cluster:
    """Has a topic from the beginning, or gets one from somebody else in the moment in
    which the registry makes its own.
    """

    def __init__(self, policy: str, *, partitions: int = 1, is_late: bool = False) -> None:
        self.policy = policy
        self.partitions = partitions
        self.is_there = not is_late
        self.asked: list[str] = []

    def __call__(self, _config: Any) -> "Cluster":
        return self

    async def __aenter__(self) -> "Cluster":
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def describe_cluster(self) -> Any:
        return SimpleNamespace(cluster_id="c", brokers=[1])

    async def describe_topics(self, names: Iterable[str]) -> dict[str, Any]:
        """Of the names that are asked for only: there may be very many others."""
        self.asked.append("describe")
        assert list(names) == ["_schemas"]
        return {"_schemas": SimpleNamespace(name="_schemas", partitions=range(self.partitions))}

    async def create_topics(self, topics: list[Any]) -> dict[str, Any]:
        self.asked.append("create")
        self.is_there = True
        return {topic.name: KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS) for topic in topics}

    async def describe_configs(self, resources: Iterable[Any], *, keys: Iterable[str]) -> dict[Any, Any]:
        assert list(keys) == ["cleanup.policy"]
        self.asked.append("configs")
        if not self.is_there:
            return {each: KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for each in resources}
        return {each: [SimpleNamespace(name="cleanup.policy", value=self.policy)] for each in resources}


class Delivered:
    def __await__(self) -> Generator[Any, None, None]:
        yield from ()

    def result(self, _timeout_s: float) -> Any:
        return SimpleNamespace(offset=7)


def make_topic(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_log, "AsyncAdmin", cluster)
    monkeypatch.setattr(schema_log, "_KNOWN_AGAIN_S", 0)

    async def make() -> None:
        await SchemaLog(RegistryConfig.of({})[0])._make_topic()

    asyncio.run(make())


@pytest.mark.parametrize("policy", ["delete", "compact,delete", ""])
@pytest.mark.parametrize("is_late", [False, True])
def test_a_topic_that_would_lose_schemas_is_refused(
    policy: str, is_late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match=f"cleanup.policy={policy}"):
        make_topic(Cluster(policy, is_late=is_late), monkeypatch)


def test_a_topic_of_several_partitions_is_refused_also_when_somebody_has_just_made_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(UserError, match="has 3 partitions"):
        make_topic(Cluster("compact", partitions=3, is_late=True), monkeypatch)


def test_a_compacted_topic_that_somebody_has_just_made_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster("compact", is_late=True)
    make_topic(cluster, monkeypatch)
    assert cluster.asked == ["configs", "create", "configs", "describe"]


def test_a_registry_that_was_started_before_its_brokers_waits_for_them(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cluster, attempts = Cluster("compact"), 0

    def late(config: Any) -> Cluster:
        nonlocal attempts
        attempts += 1
        if attempts < 3:
            raise REFUSED
        return cluster

    async def make() -> None:
        await SchemaLog(RegistryConfig.of({})[0])._make_topic_when_reached()

    monkeypatch.setattr(schema_log, "AsyncAdmin", late)
    monkeypatch.setattr(schema_log, "_REACHED_AGAIN_S", 0)
    asyncio.run(make())
    assert cluster.asked == ["configs", "describe"]
    assert caplog.text.count("waiting-for-brokers") == 1  # for one reason, once


def test_brokers_that_cannot_be_reached_in_time_are_told_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(_config: Any) -> Cluster:
        raise REFUSED

    async def start() -> None:
        await SchemaLog(RegistryConfig.of({"kafkastore.init.timeout.ms": "1"})[0]).open()

    monkeypatch.setattr(schema_log, "AsyncAdmin", nobody)
    with pytest.raises(UserError, match="nothing listens there"):
        asyncio.run(start())


def test_brokers_that_are_there_and_do_not_answer_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(_config: Any) -> Cluster:
        raise BootstrapFailed([ConnectionFailed(Address("host", 1), "does not speak the Kafka protocol")])

    async def start() -> None:
        await SchemaLog(RegistryConfig.of({})[0]).open()

    monkeypatch.setattr(schema_log, "AsyncAdmin", other)
    with pytest.raises(UserError, match="does not speak"):
        asyncio.run(start())


def test_what_compaction_has_taken_before_a_registry_started_is_not_waited_for() -> None:
    """A tombstone is the last record that the leader knows; who starts when it is gone has read everything, too."""

    class Compacted:
        def __init__(self) -> None:
            self.at = 0

        def assign(self, _partitions: Any) -> None:
            pass

        async def end_offsets(self, partitions: list[Any]) -> dict[Any, int]:
            return dict.fromkeys(partitions, 9)

        async def position(self, _partition: Any) -> int:
            return self.at

        async def poll(self, _timeout_s: float) -> list[Any]:
            self.at = 9
            return [SimpleNamespace(key=b'{"keytype":"NOOP","magic":0}', value=None, timestamp_ms=0, offset=4)]

    async def read() -> int:
        log = SchemaLog(RegistryConfig.of({})[0])
        await log._read_all()
        await log.wait_for(8, 0)
        with pytest.raises(TimeoutError):
            await log.wait_for(9, 0)
        return log.applied_offset

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema_log, "AsyncConsumer", lambda _config: Compacted())
        assert asyncio.run(read()) == 4


def test_all_records_of_a_transaction_go_out_together() -> None:
    """One by one, each would be a request of its own: that is most of what a schema costs."""

    class Producer:
        def __init__(self) -> None:
            self.done: list[str] = []

        @contextlib.asynccontextmanager
        async def transaction(self) -> AsyncIterator[None]:
            self.done.append("begin")
            yield
            self.done.append("commit")

        async def send(self, _topic: str, value: bytes | None, *, key: bytes, partition: int) -> Any:
            assert (partition, value, bool(key)) == (0, None, True)
            self.done.append("send")
            return Delivered()

        async def flush(self) -> None:
            self.done.append("flush")

    async def write() -> tuple[int, list[str]]:
        producer = Producer()
        log = SchemaLog(RegistryConfig.of({})[0])
        records = [Record(Key("CONFIG", each), None) for each in "ab"]
        return await log._transaction(cast("AsyncProducer", producer), records), producer.done

    assert asyncio.run(write()) == (7, ["begin", "send", "send", "flush", "commit"])


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.LEADER_NOT_AVAILABLE])
def test_a_topic_that_cannot_be_described_is_told_with_the_reason(
    code: ErrorCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Closed(Cluster):
        async def describe_topics(self, names: Iterable[str]) -> dict[str, Any]:
            return {name: KafkaError(code) for name in names}

    async def start() -> None:
        timeout_ms = "100" if code == ErrorCode.LEADER_NOT_AVAILABLE else "600000"  # a right is not waited for
        await SchemaLog(RegistryConfig.of({"kafkastore.init.timeout.ms": timeout_ms})[0]).open()

    monkeypatch.setattr(schema_log, "AsyncAdmin", Closed("compact"))
    with pytest.raises(UserError, match=code.name):
        asyncio.run(start())


@pytest.mark.parametrize("is_told_of_the_end", [True, False])
def test_who_waits_for_a_write_hears_at_once_when_the_registry_resigns(is_told_of_the_end: bool) -> None:
    """The transaction is aborted, too, which brokers that cannot be reached do not answer either."""

    async def write() -> None:
        log = SchemaLog(RegistryConfig.of({})[0])
        producer = SilentProducer(is_told_of_the_end=is_told_of_the_end)
        log._producer = cast("AsyncProducer", producer)
        writing = asyncio.create_task(log.write([Record(Key("CONFIG", "s"), None)]))
        await producer.begun.wait()
        await log.resign()
        assert producer.closed.is_set()
        await writing

    with pytest.raises(WriteFailed, match="another registry may lead"):
        asyncio.run(write())


def test_a_write_has_its_time_and_not_as_much_again_for_its_end() -> None:
    async def write() -> SilentProducer:
        log = SchemaLog(RegistryConfig.of({"kafkastore.timeout.ms": "10"})[0])
        producer = SilentProducer()
        log._producer = cast("AsyncProducer", producer)
        with pytest.raises(WriteTimedOut, match=r"within 0\.01 s"):
            await log.write([Record(Key("CONFIG", "s"), None)])
        await asyncio.sleep(0)
        assert producer.aborts == 1
        await log.resign()
        return producer

    assert asyncio.run(write()).closed.is_set()


def test_a_write_that_is_committed_and_cannot_be_read_ends_with_the_lead() -> None:
    """The broker has it, and this registry has not read it: whoever asks it next would not see it."""

    class Done(SilentProducer):
        async def flush(self) -> None:
            self.begun.set()

        async def send(self, _topic: str, _value: bytes | None, *, key: bytes, partition: int) -> Any:
            return Delivered()

    async def write() -> None:
        log = SchemaLog(RegistryConfig.of({})[0])
        producer = Done()
        log._producer = cast("AsyncProducer", producer)
        writing = asyncio.create_task(log.write([Record(Key("CONFIG", "s"), None)]))
        await producer.begun.wait()
        await log.resign()
        await writing

    with pytest.raises(WriteFailed, match="another registry may lead"):
        asyncio.run(write())


@pytest.mark.parametrize(
    ("problem", "told"),
    [
        (KafkaError(ErrorCode.REQUEST_TIMED_OUT), WriteTimedOut),
        (TimeoutError(), WriteTimedOut),
        (KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS), WriteFailed),
        (KafkaError(ErrorCode.PRODUCER_FENCED), NotLeading),
        (KafkaError(ErrorCode.MESSAGE_TOO_LARGE), KafkaError),
    ],
)
def test_what_a_write_fails_by_is_told_apart(problem: Exception, told: type[Exception]) -> None:
    class Failing(SilentProducer):
        @contextlib.asynccontextmanager
        async def transaction(self) -> AsyncIterator[None]:
            raise problem
            yield

    async def write() -> None:
        log = SchemaLog(RegistryConfig.of({})[0])
        log._producer = cast("AsyncProducer", Failing())
        await log.write([Record(Key("CONFIG", "s"), None)])

    with pytest.raises(told) as caught:
        asyncio.run(write())
    assert type(caught.value) is told


@pytest.mark.parametrize("timeout_ms", [1, 500, 10_000, 30_000, 31_000, 60_000, 600_000])
def test_a_registry_leads_whatever_time_its_writes_have(timeout_ms: int) -> None:
    """Confluent's default is 500 ms: the producer refused all below 31 seconds, and the registry ended."""

    async def make() -> None:
        config = RegistryConfig.of({"kafkastore.timeout.ms": str(timeout_ms)})[0]
        await AsyncProducer(writer_settings(config)).close(0)

    asyncio.run(make())


class Log(SchemaLog):
    """Beside its producer another one writes; `_apply` is its reader. The topic's next record has offset 7."""

    def read(self, *records: tuple[int, Record]) -> None:
        found = [(offset, encode_key(each.key), encode_value(each.value)) for offset, each in records]
        self._apply([SimpleNamespace(offset=o, key=k, value=v, timestamp_ms=0) for o, k, v in found])


def test_a_leader_that_was_behind_keeps_the_ids_that_it_reads_of_only_then() -> None:
    """The highest id's schema is deleted for good, so only the NOOP record tells of it: one that said less replaced it,
    and after compaction the id was given again.
    """

    class Producer:
        def __init__(self, _config: Any) -> None:
            self.sent: list[tuple[bytes, bytes | None]] = []

        async def init_transactions(self) -> None:
            pass

        @contextlib.asynccontextmanager
        async def transaction(self) -> AsyncIterator[None]:
            yield
            former = [(5, noop({".": 9}))] if len(self.sent) == 1 else []
            log.read(*former, (7, Record(Key("NOOP"), decode_value(self.sent[-1][1]))))

        async def send(self, _topic: str, value: bytes | None, *, key: bytes, partition: int) -> Any:
            self.sent.append((key, value))
            return Delivered()

        async def flush(self) -> None:
            pass

    async def lead() -> list[bytes | None]:
        nonlocal log
        log = Log(RegistryConfig.of({})[0])
        await log.lead()
        return [value for _, value in cast("Producer", log._producer).sent]

    log = cast("Log", None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema_log, "AsyncProducer", Producer)
        assert asyncio.run(lead()) == [None, b'{"maxIds":{".":9}}']


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_commit_that_is_answered_with_another_leader_is_looked_for_in_the_log(is_committed: bool) -> None:
    """An earlier answer was lost, and a successor came before the commit was asked for again. It was taken for one that
    had never been written, and done once more: `DELETE .../versions/latest` took a second version.
    """
    mine, theirs = Record(Key("CONFIG", "s"), None), noop({})

    class Fenced(SilentProducer):
        @contextlib.asynccontextmanager
        async def transaction(self) -> AsyncIterator[None]:
            yield
            raise ProducerFenced("registry")

        async def send(self, _topic: str, _value: bytes | None, *, key: bytes, partition: int) -> Any:
            return Delivered()

        async def flush(self) -> None:
            self.begun.set()

    async def write() -> int:
        log, producer = Log(RegistryConfig.of({})[0]), Fenced()
        log._producer = cast("AsyncProducer", producer)
        writing = asyncio.create_task(log.write([mine]))
        await producer.begun.wait()
        log.read(*([(7, mine)] if is_committed else []), (9, theirs))
        return await writing

    if is_committed:
        assert asyncio.run(write()) == 7
    else:
        with pytest.raises(NotLeading):
            asyncio.run(write())
