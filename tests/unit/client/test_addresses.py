"""Bootstrap addresses as people write them."""

import pytest

from headwater.base.errors import UserError
from headwater.client.addresses import Address, parse_address, parse_bootstrap


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:9092", Address("localhost", 9092)),
        ("localhost", Address("localhost", 9092)),
        ("localhost:", Address("localhost", 9092)),
        (" kafka.example:19092 ", Address("kafka.example", 19092)),
        ("[::1]:9093", Address("::1", 9093)),
        ("[::1]", Address("::1", 9092)),
        ("fe80::1", Address("fe80::1", 9092)),
        ("PLAINTEXT://broker:1", Address("broker", 1)),
        ("plaintext://[2001:db8::1]:65535", Address("2001:db8::1", 65535)),
    ],
)
def test_addresses_are_read(text: str, address: Address) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text", ["", ":9092", "host:x", "host:0", "host:65536", "[::1", "[::1]9092", "SSL://a:1", "host:٣"]
)
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_address(text)
    assert "Cannot read the bootstrap server" in caught.value.what


def test_an_address_is_written_as_it_is_read() -> None:
    for address in (Address("a", 1), Address("::1", 9092)):
        assert parse_address(str(address)) == address


def test_lists_keep_their_order_and_drop_repetitions() -> None:
    expected = [Address("b", 1), Address("a", 2)]
    assert parse_bootstrap("b:1, a:2,,b:1") == expected
    assert parse_bootstrap(["b:1", "a:2,b:1"]) == expected


def test_an_empty_list_is_an_error() -> None:
    with pytest.raises(UserError, match="No bootstrap server"):
        parse_bootstrap(" , ")
