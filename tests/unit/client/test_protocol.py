"""The sans-I/O core of a connection: correlation ids, order, and streams that make no sense."""

import pytest

from headwater.base.errors import ErrorCode
from headwater.client.protocol import ClientProtocol
from headwater.wire.errors import DecodeError
from headwater.wire.framing import frame
from headwater.wire.headers import decode_request_header, response_header_bytes
from headwater.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from headwater.wire.messages.metadata import MetadataRequest, MetadataResponse
from headwater.wire.messages.produce import ProduceRequest


def _answer(key: int, version: int, correlation_id: int, response: MetadataResponse | ApiVersionsResponse) -> bytes:
    return b"".join(frame([response_header_bytes(key, version, correlation_id), *response.encode(version)]))


def test_requests_carry_growing_correlation_ids_and_the_client_id() -> None:
    protocol = ClientProtocol("tester")
    for expected in (0, 1):
        exchange, chunks = protocol.start(MetadataRequest(topics=[]), 12, MetadataResponse)
        sent = b"".join(chunks)
        header = decode_request_header(sent[4:])
        assert int.from_bytes(sent[:4], "big") == len(sent) - 4
        assert (header.api_key, header.api_version, header.correlation_id) == (3, 12, expected)
        assert header.client_id == "tester"
        assert exchange.correlation_id == expected


def test_responses_complete_their_requests_in_order_however_the_bytes_are_cut() -> None:
    protocol = ClientProtocol("tester")
    first, _ = protocol.start(MetadataRequest(topics=[]), 12, MetadataResponse)
    second, _ = protocol.start(MetadataRequest(topics=[]), 9, MetadataResponse)
    stream = _answer(3, 12, 0, MetadataResponse(controller_id=7)) + _answer(3, 9, 1, MetadataResponse(controller_id=8))
    done = [exchange for at in range(len(stream)) for exchange in protocol.receive(stream[at : at + 1])]
    assert done == [first, second]
    assert first.response is not None
    assert second.response is not None
    assert (first.response.controller_id, second.response.controller_id) == (7, 8)
    assert protocol.under_way == 0


def test_a_response_out_of_turn_is_refused() -> None:
    protocol = ClientProtocol("tester")
    protocol.start(MetadataRequest(topics=[]), 12, MetadataResponse)
    protocol.start(MetadataRequest(topics=[]), 12, MetadataResponse)
    with pytest.raises(DecodeError, match="correlation id 1"):
        protocol.receive(_answer(3, 12, 1, MetadataResponse()))


def test_a_response_that_nobody_waits_for_is_refused() -> None:
    with pytest.raises(DecodeError, match="no request"):
        ClientProtocol("tester").receive(_answer(3, 12, 0, MetadataResponse()))


def test_a_web_server_is_not_taken_for_a_broker() -> None:
    protocol = ClientProtocol("tester")
    protocol.start(MetadataRequest(topics=[]), 12, MetadataResponse)
    with pytest.raises(DecodeError, match="frame claims"):
        protocol.receive(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def test_a_broker_that_does_not_know_our_version_is_read_in_the_oldest() -> None:
    protocol = ClientProtocol("tester")
    exchange, _ = protocol.start(ApiVersionsRequest(), 5, ApiVersionsResponse)
    refusal = ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[ApiVersion(api_key=18, min_version=0, max_version=3)]
    )
    protocol.receive(b"".join(frame([response_header_bytes(18, 0, 0), *refusal.encode(0)])))
    assert exchange.response is not None
    assert exchange.response.api_keys[0].max_version == 3


def test_a_produce_that_gets_no_answer_does_not_wait_for_one() -> None:
    protocol = ClientProtocol("tester")
    protocol.start_unanswered(ProduceRequest(acks=0, timeout_ms=1), 9)
    exchange, _ = protocol.start(MetadataRequest(topics=[]), 12, MetadataResponse)
    assert exchange.correlation_id == 1
    assert protocol.receive(_answer(3, 12, 1, MetadataResponse())) == [exchange]
