"""What the classes of messages promise: constructors, values, records in pieces, one version at a time."""

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.wire import codec, registry
from headwater.wire.errors import DecodeError
from headwater.wire.messages.api_versions import ApiVersionsRequest
from headwater.wire.messages.fetch import EpochEndOffset, FetchableTopicResponse, FetchResponse, PartitionData
from headwater.wire.messages.metadata import MetadataRequest, MetadataResponse
from headwater.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headwater.wire.schema import INT8, INT32, STRING, UUID, Array, Message, Struct, field


class Inner(Struct):
    number: int = field(INT32, default=-1)


class Sample(Message, key=1000, versions=(0, 3), flexible_since=2):
    name: str | None = field(STRING, nullable_since=1)
    uuids: list[bytes] = field(Array(UUID))
    names: list[str] = field(Array(STRING), until=2)
    small: list[int] | None = field(Array(INT8), nullable_since=0)
    inner: Inner = field(Inner)
    maybe: Inner | None = field(Inner, since=3, nullable_since=0)


class Slice:
    """Stands for a FileSlice: it has a length and nothing else."""

    def __len__(self) -> int:
        return 5


def test_every_field_has_a_default_and_lists_are_not_shared() -> None:
    one, other = Sample(), Sample()
    assert (one.name, one.uuids, one.small, one.inner, one.maybe) == (None, [], None, Inner(), None)
    one.uuids.append(b"")
    assert other.uuids == []
    assert one.inner is not other.inner


def test_fields_are_keywords_and_nothing_else_is() -> None:
    with pytest.raises(TypeError):
        Sample("name")  # type: ignore[misc]
    with pytest.raises(TypeError):
        Sample(nmae="")  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        Sample().nmae = ""  # type: ignore[attr-defined]


def test_equality_and_repr() -> None:
    assert Inner(number=1) == Inner(number=1)
    assert Inner(number=1) != Inner(number=2)
    assert Inner() != EpochEndOffset()
    assert repr(Inner(number=1)) == "Inner(number=1)"
    assert "<40 bytes>" in repr(PartitionProduceData(records=bytes(40)))


@pytest.mark.parametrize("version", range(4))
def test_all_kinds_of_fields_come_back(version: int) -> None:
    message = Sample(name="n", uuids=[bytes(range(16)), bytes(16)], small=[1, -2], inner=Inner(number=9))
    if version < 3:
        message.names = ["", "x" * 300]
    else:
        message.maybe = Inner(number=3)
    assert Sample.decode(b"".join(message.encode(version)), 0, version) == message


def test_null_is_written_as_empty_where_the_version_has_no_null() -> None:
    assert Sample.decode(b"".join(Sample().encode(0)), 0, 0).name == ""
    assert Sample.decode(b"".join(Sample().encode(1)), 0, 1).name is None
    assert b"".join(MetadataRequest(topics=None).encode(0)) == b"\0\0\0\0"
    assert b"".join(MetadataRequest(topics=None).encode(1)) == b"\xff\xff\xff\xff"


def test_fields_of_other_versions_are_left_out_and_come_back_as_defaults() -> None:
    response = MetadataResponse(throttle_time_ms=9, cluster_id="c")
    assert MetadataResponse.decode(b"".join(response.encode(0)), 0, 0) == MetadataResponse()
    assert MetadataResponse.decode(b"".join(response.encode(3)), 0, 3) == response


def test_a_tagged_struct_is_none_when_it_was_not_sent() -> None:
    for given in (None, EpochEndOffset()):
        response = _fetch_response(PartitionData(diverging_epoch=given))
        decoded = FetchResponse.decode(b"".join(response.encode(12)), 0, 12)
        assert decoded.responses[0].partitions[0].diverging_epoch is None


def test_records_are_chunks_of_their_own_and_the_rest_is_joined() -> None:
    first, second = Slice(), b"12345"
    response = _fetch_response(PartitionData(records=first), PartitionData(), PartitionData(records=second))
    for version in (4, 11, 12, 16):
        chunks = response.encode(version)
        assert chunks[1] is first
        assert chunks[3] is second
        assert len(chunks) == (4 if version < 12 else 5)
        assert all(isinstance(chunk, bytes) for chunk in (chunks[0], chunks[2], *chunks[4:]))


def test_empty_records_make_no_chunk() -> None:
    for records in (None, b""):
        assert len(_fetch_response(PartitionData(records=records)).encode(11)) == 1


@pytest.mark.parametrize("version", [7, 9])
def test_decoded_records_are_a_writable_view_of_the_request(version: int) -> None:
    partition = PartitionProduceData(index=1, records=b"abcdef")
    request = ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=[partition])])
    buffer = bytearray(b"".join(request.encode(version)))
    records = ProduceRequest.decode(buffer, 0, version).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    records[0:3] = b"XYZ"
    assert b"XYZdef" in buffer


def test_api_versions_5_names_the_cluster_and_broker_that_the_client_means() -> None:
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1", cluster_id="c", node_id=2)
    assert b"".join(request.encode(5)) == b"\x02a\x021\x02c\0\0\0\x02\0"
    assert b"".join(ApiVersionsRequest().encode(5)) == b"\x01\x01\0\xff\xff\xff\xff\0"


def test_codecs_are_compiled_once_per_version() -> None:
    for version in (4, 4, 5):
        FetchResponse.decode(b"".join(FetchResponse().encode(version)), 0, version)
    assert FetchResponse._decoders[4] is not FetchResponse._decoders[5]
    decoder = FetchResponse._decoders[4]
    FetchResponse.decode(b"".join(FetchResponse().encode(4)), 0, 4)
    assert FetchResponse._decoders[4] is decoder


def test_neighbours_of_constant_width_are_read_in_one_step() -> None:
    source = codec.decoder_source(FetchResponse, 11).text()
    assert "unpack_from_ihqqqi(b, p)" in source


def test_errors_name_the_field() -> None:
    with pytest.raises(DecodeError, match=r"FetchResponse.responses is null"):
        FetchResponse.decode(b"\0\0\0\0\xff\xff\xff\xff", 0, 4)


def test_classes_are_found_by_key() -> None:
    assert registry.request_class(0) is ProduceRequest
    assert registry.response_class(1) is FetchResponse
    for key in (4, 999, -1):
        with pytest.raises(KafkaError) as caught:
            registry.request_class(key)
        assert caught.value.code == ErrorCode.INVALID_REQUEST


def test_requests_and_responses_have_the_same_key_and_versions() -> None:
    for key in registry.known_keys():
        request, response = registry.request_class(key), registry.response_class(key)
        assert request.KEY == response.KEY == key
        assert request.VERSIONS == response.VERSIONS
        assert request.__doc__ or request.__module__


def _fetch_response(*partitions: PartitionData) -> FetchResponse:
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=list(partitions))])
