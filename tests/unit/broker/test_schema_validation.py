"""Topics that ask for schemas: which records the broker takes, what it asks a registry for, and what it says when that
does not answer.
"""

import random
from collections.abc import Callable
from typing import Any

import pytest

from headwater.base.config.table import TOPIC
from headwater.base.config.validators import ConfigValueError
from headwater.base.errors import ErrorCode
from headwater.broker import known_schemas, validated_produce
from headwater.broker.deferred import Deferred
from headwater.broker.known_schemas import KnownSchemas, SchemaAnswer, SchemaFacts, Trouble, Verdict
from headwater.broker.schema_policy import SidePolicy, policy_of
from headwater.records.builder import build_batch
from headwater.records.reader import Record
from headwater.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headwater.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headwater.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

GUID = b"\x01" + bytes(range(16))


class FakeRegistry:
    """The port, with answers that come when the test says so."""

    address = "http://registry"
    timeout_ms = 5_000

    def __init__(self) -> None:
        self.schemas: dict[bytes, SchemaAnswer] = {}
        self.asked: list[bytes] = []
        self.opened = 0
        self.holds = False
        self._held: list[Callable[[], None]] = []

    def ask(self, frame: bytes, done: Callable[[SchemaAnswer], None]) -> None:
        self.asked.append(frame)
        answer = self.schemas.get(frame)
        if self.holds:
            self._held.append(lambda: done(answer))
        else:
            done(answer)

    def open(self, function: Any, *arguments: Any, done: Any) -> None:
        self.opened += 1
        try:
            found, problem = function(*arguments), None
        except Exception as error:  # noqa: BLE001 - as a thread hands it on
            found, problem = None, error
        self._held.append(lambda: done(found, problem))

    def release(self) -> None:
        held, self._held = self._held, []
        for each in held:
            each()


def framed(schema: int, data: bytes = b"x") -> bytes:
    return b"\0" + schema.to_bytes(4) + data


def facts(*subjects: str, names: tuple[str, ...] = ()) -> SchemaFacts:
    return SchemaFacts(frozenset(subjects), frozenset(names))


@pytest.fixture
def registry(lab: Any) -> FakeRegistry:
    found = FakeRegistry()
    found.schemas = {framed(1, b""): facts("t-value"), framed(2, b""): facts("other-value")}
    known = KnownSchemas(found, lab.clock)
    lab.broker.known_schemas = lambda: known
    return found


def make_topic(lab: Any, config: dict[str, str] | None = None) -> None:
    given = {"confluent.value.schema.validation": "true"} if config is None else config
    configs = [CreatableTopicConfig(name=name, value=value) for name, value in given.items()]
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1, configs=configs)
    answer = lab.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000))
    assert answer.topics[0].error_code == 0, answer.topics[0].error_message


def request_for(lab: Any, records: list[Record], codec: int = 0, timeout_ms: int = 30_000, acks: int = 1) -> Any:
    data = PartitionProduceData(index=0, records=bytes(build_batch(records, codec=codec)))
    topic = TopicProduceData(name="t", topic_id=lab.broker.image.topic("t").topic_id, partition_data=[data])
    return ProduceRequest(transactional_id=None, acks=acks, timeout_ms=timeout_ms, topic_data=[topic])


def values(lab: Any, *values: bytes | None) -> list[Record]:
    return [Record(at, lab.clock.now_ms(), None, value) for at, value in enumerate(values)]


def send(lab: Any, *sent: bytes | None, version: int = 13, codec: int = 0) -> Any:
    (part,) = lab.ask(request_for(lab, values(lab, *sent), codec), version).responses[0].partition_responses
    return part


def end_offset(lab: Any) -> int:
    offset: int = lab.broker.partition("t", 0).log.log_end_offset
    return offset


# What is taken


@pytest.mark.parametrize("codec", [0, 1, 4])
@pytest.mark.parametrize("version", [3, 9, 13])
def test_a_record_of_the_topics_subject_is_taken(lab: Any, registry: FakeRegistry, version: int, codec: int) -> None:
    make_topic(lab)
    part = send(lab, framed(1), None, framed(1), version=version, codec=codec)
    assert (part.error_code, part.base_offset, end_offset(lab)) == (0, 0, 3)


def test_records_without_a_known_schema_are_named_one_by_one(lab: Any, registry: FakeRegistry) -> None:
    make_topic(lab)
    part = send(lab, framed(1), b"plain", framed(2), None, framed(9), b"")
    assert (part.error_code, part.base_offset, end_offset(lab)) == (ErrorCode.INVALID_RECORD, -1, 0)
    assert [(each.batch_index, each.batch_index_error_message) for each in part.record_errors] == [
        (1, "the value does not begin with the id of a schema"),
        (2, "schema 2 is not registered under the subject t-value"),
        (4, "the schema registry has no schema 9"),
        (5, "the value does not begin with the id of a schema"),
    ]
    assert "4 of the batch's records" in (part.error_message or "")


def test_keys_are_looked_at_where_the_topic_asks_for_it(lab: Any, registry: FakeRegistry) -> None:
    make_topic(lab, {"headwater.key.schema.validation": "true"})
    registry.schemas[framed(3, b"")] = facts("t-key")
    good = Record(0, lab.clock.now_ms(), framed(3), b"anything")
    bad = Record(1, lab.clock.now_ms(), framed(1), b"anything")
    (part,) = lab.ask(request_for(lab, [good, bad])).responses[0].partition_responses
    assert [each.batch_index for each in part.record_errors] == [1]
    assert "t-key" in part.record_errors[0].batch_index_error_message


def test_a_guid_in_a_header_names_the_schema(lab: Any, registry: FakeRegistry) -> None:
    make_topic(lab)
    registry.schemas[GUID] = facts("t-value")
    now_ms = lab.clock.now_ms()
    records = [
        Record(0, now_ms, None, b"plain", (("__value_schema_id", GUID + b"\x00"),)),
        Record(1, now_ms, None, b"plain", (("__value_schema_id", b"\x01" + bytes(16)),)),
    ]
    (part,) = lab.ask(request_for(lab, records)).responses[0].partition_responses
    assert [(each.batch_index, each.batch_index_error_message) for each in part.record_errors] == [
        (1, "the schema registry has no schema 00000000-0000-0000-0000-000000000000")
    ]


@pytest.mark.parametrize(
    ("strategy", "subjects", "names", "taken"),
    [
        ("io.confluent.kafka.serializers.subject.RecordNameStrategy", ("a.B",), ("a.B",), True),
        ("record", ("t-value",), ("a.B",), False),
        ("topic_record", ("t-a.B",), ("a.B",), True),
        ("TopicRecordNameStrategy", ("a.B",), ("a.B",), False),
        ("record", ("t-value",), (), False),
    ],
)
def test_the_subject_is_named_as_the_topic_says(
    lab: Any, registry: FakeRegistry, strategy: str, subjects: tuple[str, ...], names: tuple[str, ...], taken: bool
) -> None:
    config = {"confluent.value.schema.validation": "true", "confluent.value.subject.name.strategy": strategy}
    make_topic(lab, config)
    registry.schemas[framed(5, b"")] = facts(*subjects, names=names)
    assert (send(lab, framed(5)).error_code == 0) is taken


def test_policies_are_read_from_either_name_and_ours_wins() -> None:
    assert policy_of("t", {"retention.ms": "1"}) is None
    assert policy_of("t", {"confluent.value.schema.validation": "false"}) is None
    both = {
        "headwater.value.schema.validation": "true",
        "confluent.value.subject.name.strategy": "x.RecordNameStrategy",
        "headwater.value.subject.name.strategy": "topic",
    }
    policy = policy_of("t", both)
    assert policy is not None
    assert policy.sides == (SidePolicy("t", False, "topic"),)
    with pytest.raises(ConfigValueError):
        TOPIC["confluent.value.subject.name.strategy"].parse("by.colour")


# Where it costs nothing


def test_the_hot_path_declines_only_topics_that_ask_for_schemas(lab: Any, registry: FakeRegistry) -> None:
    make_topic(lab, {})
    listed = lab.broker.partitions_by_wire_name[b"t"]
    assert listed[0].is_alone
    assert lab.broker.schema_policies == {}

    def configure(value: str) -> None:
        config = AlterableConfig(name="confluent.value.schema.validation", config_operation=0, value=value)
        resource = AlterConfigsResource(resource_type=2, resource_name="t", configs=[config])
        lab.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))

    configure("true")
    assert not listed[0].is_alone
    assert send(lab, b"plain").error_code == ErrorCode.INVALID_RECORD
    configure("false")
    assert listed[0].is_alone
    assert lab.broker.schema_policies == {}
    assert send(lab, b"plain").error_code == 0
    assert registry.asked == []


def test_a_topic_that_is_gone_leaves_no_policy(lab: Any, registry: FakeRegistry) -> None:
    make_topic(lab)
    topic = lab.broker.image.topic("t")
    lab.broker.unlist_topic("t", topic.topic_id)
    assert lab.broker.schema_policies == {}


# Asking


def test_the_registry_is_asked_once_for_each_schema(lab: Any, registry: FakeRegistry) -> None:
    make_topic(lab)
    for _ in range(3):
        send(lab, framed(1), framed(1))
    assert registry.asked == [framed(1, b"")]


def test_what_keeps_records_out_is_asked_again_soon_and_what_lets_them_in_late(
    lab: Any, registry: FakeRegistry
) -> None:
    make_topic(lab)
    assert send(lab, framed(9)).error_code == ErrorCode.INVALID_RECORD
    registry.schemas[framed(9, b"")] = facts("t-value")
    assert send(lab, framed(9)).error_code == ErrorCode.INVALID_RECORD
    lab.clock.advance(known_schemas.BAD_MS + 1)
    assert send(lab, framed(9)).error_code == 0
    registry.schemas[framed(9, b"")] = Trouble("gone")
    lab.clock.advance(known_schemas.BAD_MS + 1)
    assert send(lab, framed(9)).error_code == 0
    lab.clock.advance(known_schemas.GOOD_MS + 1)
    assert send(lab, framed(9)).error_code == 0  # nobody says that it is wrong by now
    assert len(registry.asked) == 3


def test_a_schema_that_gets_one_more_subject_is_not_refused_for_what_was_true_before(
    lab: Any, registry: FakeRegistry
) -> None:
    """A serializer registered the same schema under a second topic, and its first record was refused."""
    make_topic(lab)
    registry.schemas[framed(5, b"")] = facts("other-value")
    known = lab.broker.known_schemas()
    known.ask(framed(5, b""), SidePolicy("other", False, "topic"), lambda _: None)
    registry.schemas[framed(5, b"")] = facts("other-value", "t-value")
    assert send(lab, framed(5)).error_code == 0


def test_what_waits_holds_the_order_and_keeps_its_bytes(lab: Any, registry: FakeRegistry) -> None:
    make_topic(lab)
    registry.holds = True
    answer = lab.begin(request_for(lab, values(lab, framed(1))))
    assert isinstance(answer, Deferred)
    assert answer.holds_order
    lab.frame[:] = bytes(len(lab.frame))  # the buffer is somebody else's now
    registry.release()
    assert answer.done
    assert answer.response.responses[0].partition_responses[0].error_code == 0
    assert end_offset(lab) == 1


def test_several_requests_wait_for_one_question(lab: Any, registry: FakeRegistry) -> None:
    make_topic(lab)
    registry.holds = True
    answers = [lab.begin(request_for(lab, values(lab, framed(1)))) for _ in range(3)]
    assert registry.asked == [framed(1, b"")]
    registry.release()
    assert [each.response.responses[0].partition_responses[0].base_offset for each in answers] == [0, 1, 2]


def test_a_registry_that_does_not_answer_is_told_after_a_bounded_wait(lab: Any, registry: FakeRegistry) -> None:
    make_topic(lab)
    registry.holds = True
    answer = lab.begin(request_for(lab, values(lab, framed(1))))
    lab.clock.advance(registry.timeout_ms - 1)
    lab.settle()
    assert not answer.done
    lab.clock.advance(1)
    lab.settle()
    (part,) = answer.response.responses[0].partition_responses
    assert part.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert "within 5000 ms with the registry http://registry" in part.error_message
    registry.release()  # too late: nothing is appended
    assert end_offset(lab) == 0


def test_a_registry_that_is_down_is_told_with_the_reason(lab: Any, registry: FakeRegistry) -> None:
    make_topic(lab)
    registry.schemas[framed(7, b"")] = Trouble("Connection refused")
    part = send(lab, framed(7))
    assert part.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert "http://registry: Connection refused" in part.error_message
    assert send(lab, framed(7), b"plain").error_code == ErrorCode.INVALID_RECORD  # certainly wrong, whatever 7 is


def test_a_client_that_leaves_has_nothing_appended(lab: Any, registry: FakeRegistry) -> None:
    make_topic(lab)
    registry.holds = True
    answer = lab.begin(request_for(lab, values(lab, framed(1))))
    answer.cancel()
    registry.release()
    assert end_offset(lab) == 0


def test_without_a_registry_the_producer_is_told_what_is_missing(lab: Any) -> None:
    make_topic(lab)
    part = send(lab, framed(1))
    assert part.error_code == ErrorCode.INVALID_CONFIG
    assert "confluent.schema.registry.url" in part.error_message


def test_one_request_asks_for_so_many_schemas_and_no_more(
    lab: Any, registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validated_produce, "ASKED_MAX", 3)
    make_topic(lab)
    for schema in range(10, 20):
        registry.schemas[framed(schema, b"")] = facts("t-value")
    part = send(lab, *(framed(schema) for schema in range(10, 20)))
    assert part.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert len(registry.asked) == 3
    for _ in range(3):
        part = send(lab, *(framed(schema) for schema in range(10, 20)))
    assert part.error_code == 0  # the others became known by and by


def test_a_broker_knows_so_many_schemas_and_asks_so_much_at_a_time(monkeypatch: pytest.MonkeyPatch, lab: Any) -> None:
    monkeypatch.setattr(known_schemas, "KNOWN_MAX", 2)
    monkeypatch.setattr(known_schemas, "ASKED_MAX", 2)
    registry = FakeRegistry()
    known = KnownSchemas(registry, lab.clock)
    side = SidePolicy("t", False, "topic")
    told: list[Trouble | None] = []
    registry.holds = True
    for schema in (1, 2, 3):
        known.ask(framed(schema, b""), side, told.append)
    assert [each.message for each in told if each] == ["2 questions to the schema registry are under way"]
    registry.release()
    known.ask(framed(4, b""), side, told.append)
    registry.release()
    assert known.verdict(framed(1, b""), side) is None
    assert known.verdict(framed(4, b""), side) == Verdict("the schema registry has no schema 4", False)


# Opening


def test_large_compressed_batches_are_opened_beside_the_loop(lab: Any, registry: FakeRegistry) -> None:
    make_topic(lab)
    noise = random.Random(1).randbytes(40_000)
    answer = lab.begin(request_for(lab, values(lab, framed(1, noise), framed(9)), codec=4))
    assert isinstance(answer, Deferred)
    assert (registry.opened, registry.asked) == (1, [])
    registry.release()
    (part,) = answer.response.responses[0].partition_responses
    assert [each.batch_index for each in part.record_errors] == [1]


@pytest.mark.parametrize("noise", [0, 40_000])
def test_a_batch_that_cannot_be_opened_is_refused(lab: Any, registry: FakeRegistry, noise: int) -> None:
    make_topic(lab)
    request = request_for(lab, values(lab, framed(1) + bytes(range(256)) * (noise // 256)), codec=1)
    data = request.topic_data[0].partition_data[0]
    data.records = data.records[:-1] + bytes([data.records[-1] ^ 1])
    answer = lab.begin(request)
    registry.release()
    part = (answer.response if isinstance(answer, Deferred) else answer).responses[0].partition_responses[0]
    assert part.error_code == ErrorCode.CORRUPT_MESSAGE
    assert end_offset(lab) == 0


def test_acks_0_closes_the_connection_also_when_the_answer_comes_late(lab: Any, registry: FakeRegistry) -> None:
    make_topic(lab)
    registry.holds = True
    answer = lab.begin(request_for(lab, values(lab, framed(9)), acks=0))
    registry.release()
    assert isinstance(answer.response, BaseException)


def test_what_is_refused_in_a_transaction_is_not_begun(lab: Any, registry: FakeRegistry) -> None:
    make_topic(lab)
    request = request_for(lab, values(lab, framed(9)))
    request.transactional_id = "me"
    records = values(lab, framed(9))
    request.topic_data[0].partition_data[0].records = bytes(
        build_batch(records, producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    )
    (part,) = lab.ask(request).responses[0].partition_responses
    assert part.error_code == ErrorCode.INVALID_RECORD
    assert end_offset(lab) == 0
