"""Whatever a peer sends, decoding ends with the message or with a DecodeError, at a cost that its bytes bound."""

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.wire import decoder
from headwater.wire.codec import compile_decoder, size_bytes_min
from headwater.wire.errors import DecodeError
from headwater.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from headwater.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from headwater.wire.primitives import encode_tagged_fields
from headwater.wire.schema import STRING, Array, Message
from unit.wire.support import reference
from unit.wire.support.values import all_messages, example, structs_of, versions_of

every_message = pytest.mark.parametrize("cls", all_messages(), ids=lambda cls: cls.__name__)


@every_message
def test_an_example_survives(cls: type[Message]) -> None:
    for version in versions_of(cls):
        message = example(cls, version)
        encoded = b"".join(message.encode(version))
        assert encoded == reference.encode(message, version)
        assert cls.decode(encoded, 0, version) == message
        assert cls.decode(memoryview(bytearray(b"head" + encoded)), 4, version) == message


@every_message
def test_every_truncation_is_refused(cls: type[Message]) -> None:
    for version in versions_of(cls):
        encoded = b"".join(example(cls, version).encode(version))
        for length in range(len(encoded)):
            with pytest.raises(DecodeError):
                cls.decode(encoded[:length], 0, version)


@every_message
def test_bytes_behind_a_response_are_refused_and_behind_a_request_ignored(cls: type[Message]) -> None:
    for version in versions_of(cls):
        message = example(cls, version)
        encoded = b"".join(message.encode(version))
        if cls.__name__.endswith("Request"):  # librdkafka leaves some behind Metadata, and Apache Kafka does not mind
            assert cls.decode(encoded + b"\0\0\0", 0, version) == message
        else:
            with pytest.raises(DecodeError, match="1 bytes are left"):
                cls.decode(encoded + b"\0", 0, version)


@every_message
def test_unknown_tagged_fields_are_skipped_in_every_struct(cls: type[Message]) -> None:
    for version in versions_of(cls):
        if version >= cls.FLEXIBLE_SINCE:
            message = example(cls, version)
            encoded = reference.encode(message, version, unknown_tags=True)
            assert encoded.count(reference.UNKNOWN) >= 1
            assert cls.decode(encoded, 0, version) == message


@every_message
@pytest.mark.parametrize("kind", ["count", "length", "null", "utf8"])
def test_a_lie_in_any_field_is_refused(cls: type[Message], kind: str) -> None:
    struck = 0
    for version in versions_of(cls):
        message = example(cls, version)
        for number in range(1000):
            fault = reference.Fault(kind, number)
            encoded = reference.encode(message, version, fault=fault)
            if not fault.done:
                break
            struck += 1
            with pytest.raises(DecodeError):
                cls.decode(encoded, 0, version)
    assert struck or not _could_strike(cls, kind)


def _could_strike(cls: type[Message], kind: str) -> bool:
    types = [field.type for struct in structs_of(cls) for field in struct.FIELDS]
    if kind == "count":
        return any(isinstance(type_, Array) for type_ in types)
    return kind == "utf8" and STRING in types


def test_an_array_of_two_thousand_million_is_refused_before_anything_is_made_for_it() -> None:
    with pytest.raises(DecodeError, match="claims 2147483647 elements"):
        MetadataRequest.decode(b"\x7f\xff\xff\xff", 0, 1)
    with pytest.raises(DecodeError, match="claims 4294967294 elements"):
        MetadataRequest.decode(b"\xff\xff\xff\xff\x0f" + bytes(4), 0, 9)


def test_a_count_must_fit_the_smallest_elements() -> None:
    three_topics_in_four_bytes = b"\0\0\0\x03" + b"\0\0\0\0"
    with pytest.raises(DecodeError, match="claims 3 elements"):
        MetadataRequest.decode(three_topics_in_four_bytes, 0, 1)


def test_a_varint_without_an_end_is_refused() -> None:
    with pytest.raises(DecodeError, match="varint"):
        MetadataRequest.decode(b"\xff" * 20, 0, 9)


@pytest.mark.parametrize("version", [8, 9])
def test_a_string_has_no_more_bytes_than_kafka_allows(version: int) -> None:
    """A compact length could say more: a name of a megabyte would stand in answers that no client can read."""
    longest = MetadataRequest(topics=[MetadataRequestTopic(name="x" * 32_767)])
    assert MetadataRequest.decode(b"".join(longest.encode(version)), 0, version) == longest
    if version >= MetadataRequest.FLEXIBLE_SINCE:
        longer = MetadataRequest(topics=[MetadataRequestTopic(name="x" * 32_768)]).encode(version)
        with pytest.raises(DecodeError, match="a string of 32768 bytes"):
            MetadataRequest.decode(b"".join(longer), 0, version)


def test_every_array_has_elements_of_at_least_a_byte() -> None:
    """Or the bytes that are left would be no bound for their number."""
    for cls in all_messages():
        for version in versions_of(cls):
            for struct in structs_of(cls):
                for field in struct.FIELDS:
                    if isinstance(field.type, Array) and field.in_version(version):
                        size = size_bytes_min(field.type.element, version, version >= cls.FLEXIBLE_SINCE)
                        assert size > 0, (cls, version, field.name)


def test_a_tagged_field_must_end_where_its_size_says() -> None:
    message = FetchRequest(cluster_id="cluster")
    encoded = b"".join(message.encode(12))
    good = b"\x01\x00\x08\x08cluster"
    assert encoded.endswith(good)
    with pytest.raises(DecodeError, match="does not end where its size says"):
        FetchRequest.decode(encoded[: -len(good)] + b"\x01\x00\x09\x08cluster\x00", 0, 12)


def test_a_million_tagged_fields_that_are_not_there_cost_nothing() -> None:
    encoded = b"".join(MetadataRequest().encode(9))
    with pytest.raises(DecodeError):
        MetadataRequest.decode(encoded[:-1] + b"\xff\xff\xff\xff\x07", 0, 9)


def _names(count: int) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name="t") for _ in range(count)])


def _parts(topics: int, parts: int) -> FetchRequest:
    of_one = [FetchPartition(partition=index) for index in range(parts)]
    return FetchRequest(topics=[FetchTopic(topic="t", partitions=list(of_one)) for _ in range(topics)])


def _forgotten(topics: int, parts: int) -> FetchRequest:
    return FetchRequest(
        forgotten_topics_data=[ForgottenTopic(topic="t", partitions=list(range(parts))) for _ in range(topics)]
    )


@pytest.mark.parametrize("flexible", [False, True])
@pytest.mark.parametrize(
    ("fits", "too_many"),
    [(_names(100), _names(101)), (_parts(10, 9), _parts(10, 10)), (_forgotten(10, 9), _forgotten(11, 9))],
    ids=["an array", "arrays in an array", "numbers"],
)
def test_the_elements_of_a_request_are_bounded_in_all(
    monkeypatch: pytest.MonkeyPatch, fits: Message, too_many: Message, flexible: bool
) -> None:
    """Four million names of a byte were eight megabytes on the wire, and held up everybody for seconds."""
    monkeypatch.setattr(decoder, "REQUEST_ELEMENTS_MAX", 100)
    version = type(fits).FLEXIBLE_SINCE - (0 if flexible else 1)
    decode = compile_decoder(type(fits), version)
    assert decode(b"".join(fits.encode(version)), 0) == fits
    with pytest.raises(DecodeError, match="ask in several requests"):
        decode(b"".join(too_many.encode(version)), 0)


def test_tagged_fields_count_as_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder, "REQUEST_ELEMENTS_MAX", 100)
    decode = compile_decoder(MetadataRequest, 9)
    encoded = b"".join(MetadataRequest(topics=[]).encode(9))
    for count in (100, 101):
        unknown = encode_tagged_fields([(tag, b"") for tag in range(50, 50 + count)])
        if count == 100:
            assert decode(encoded[:-1] + unknown, 0).topics == []
        else:
            with pytest.raises(DecodeError, match="ask in several requests"):
                decode(encoded[:-1] + unknown, 0)


def test_the_elements_of_a_response_are_not_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client has asked for them."""
    monkeypatch.setattr(decoder, "REQUEST_ELEMENTS_MAX", 1)
    topics = [MetadataResponseTopic(name="t") for _ in range(100)]
    encoded = b"".join(MetadataResponse(topics=topics).encode(9))
    assert len(compile_decoder(MetadataResponse, 9)(encoded, 0).topics) == 100


def test_a_version_that_does_not_exist_is_refused() -> None:
    for attempt in (lambda: MetadataRequest.decode(b"", 0, 99), lambda: MetadataRequest().encode(99)):
        with pytest.raises(KafkaError) as caught:
            attempt()
        assert caught.value.code == ErrorCode.UNSUPPORTED_VERSION
