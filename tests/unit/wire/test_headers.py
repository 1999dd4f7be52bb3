"""Headers: which version has tagged fields, and what cannot be read."""

import pytest

from headwater.wire import headers, registry
from headwater.wire.api import API_NAMES, API_VERSIONS_KEY, FLEXIBLE_SINCE, api_name, module_name
from headwater.wire.errors import DecodeError
from unit.wire.support import kio_oracle as kio

PRODUCE = 0


@pytest.mark.parametrize("client_id", [None, "", "rdkafka", "grün"])
@pytest.mark.parametrize("version", [8, 9])
def test_a_request_header_comes_back(client_id: str | None, version: int) -> None:
    encoded = headers.encode_request_header(PRODUCE, version, 77, client_id)
    decoded = headers.decode_request_header(encoded + b"body")
    assert decoded == (PRODUCE, version, 77, client_id, len(encoded))


def test_request_headers_are_those_of_the_protocol() -> None:
    assert headers.encode_request_header(3, 8, 5, "me") == b"\0\x03\0\x08\0\0\0\x05\0\x02me"
    assert headers.encode_request_header(3, 9, 5, "me") == b"\0\x03\0\x09\0\0\0\x05\0\x02me\0"
    assert headers.encode_request_header(3, 9, 5, None) == b"\0\x03\0\x09\0\0\0\x05\xff\xff\0"


@pytest.mark.parametrize("version", [8, 9])
def test_every_truncation_of_a_request_header_is_refused(version: int) -> None:
    encoded = headers.encode_request_header(PRODUCE, version, 77, "client")
    for length in range(len(encoded)):
        with pytest.raises(DecodeError):
            headers.decode_request_header(memoryview(encoded)[:length])


def test_unknown_tagged_fields_in_a_request_header_are_skipped() -> None:
    encoded = headers.encode_request_header(PRODUCE, 9, 1, "c")[:-1] + b"\x02\x00\x01a\x05\x02bc"
    assert headers.decode_request_header(encoded).body_at == len(encoded)
    with pytest.raises(DecodeError):
        headers.decode_request_header(encoded[:-1])


def test_a_client_id_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(DecodeError):
        headers.decode_request_header(b"\0\0\0\x08\0\0\0\x05\0\x01\xff")


def test_an_unknown_api_has_a_header_that_can_be_read() -> None:
    decoded = headers.decode_request_header(b"\x7f\xff\0\x08\0\0\0\x05\xff\xff")
    assert (decoded.api_key, decoded.correlation_id, decoded.body_at) == (0x7FFF, 5, 10)


def test_response_headers_have_tagged_fields_in_flexible_versions() -> None:
    assert headers.response_header_bytes(PRODUCE, 8, 7) == b"\0\0\0\x07"
    assert headers.response_header_bytes(PRODUCE, 9, 7) == b"\0\0\0\x07\0"


@pytest.mark.parametrize("version", [0, 3, 4, 5])
def test_the_api_versions_response_header_never_changes(version: int) -> None:
    encoded = headers.response_header_bytes(API_VERSIONS_KEY, version, 7)
    assert encoded == b"\0\0\0\x07"
    assert headers.decode_response_header(encoded, API_VERSIONS_KEY, version) == (7, 4)


def test_a_response_header_comes_back_without_its_tagged_fields() -> None:
    assert headers.decode_response_header(b"\0\0\0\x07body", PRODUCE, 8) == (7, 4)
    assert headers.decode_response_header(b"\0\0\0\x07\0body", PRODUCE, 9) == (7, 5)
    assert headers.decode_response_header(b"\0\0\0\x07\x01\x00\x01xbody", PRODUCE, 9) == (7, 8)
    for broken in (b"", b"\0\0\0", b"\0\0\0\x07", b"\0\0\0\x07\x01\x00\x05x"):
        with pytest.raises(DecodeError):
            headers.decode_response_header(broken, PRODUCE, 9)


def test_first_flexible_versions_are_those_of_the_messages() -> None:
    for key in registry.known_keys():
        assert FLEXIBLE_SINCE[key] == registry.request_class(key).FLEXIBLE_SINCE, API_NAMES[key]
        assert FLEXIBLE_SINCE[key] == registry.response_class(key).FLEXIBLE_SINCE, API_NAMES[key]


def test_header_versions_are_those_of_kio() -> None:
    for key in registry.known_keys():
        request, response = registry.request_class(key), registry.response_class(key)
        for version in range(request.VERSIONS[0], request.VERSIONS[1] + 1):
            theirs = kio.kio_class(request, version)
            if theirs is None:
                continue
            flexible = headers.encode_request_header(key, version, 0, None).endswith(b"\0")
            assert theirs.__header_schema__.__version__ == (2 if flexible else 1)
            length = len(headers.response_header_bytes(key, version, 0))
            assert kio.kio_class(response, version).__header_schema__.__version__ == length - 4  # type: ignore[union-attr]


def test_names_of_apis() -> None:
    from kio.schema.index import api_key_map

    assert {key: module_name(key) for key in API_NAMES if key not in (4, 5, 6, 7)} == dict(api_key_map)
    assert api_name(0) == "Produce"
    assert api_name(-5) == "Unknown(-5)"
