"""What messages repeat of addresses and arguments: never a login, and nothing of what may be a secret alone."""

import pytest

from headwater.base.redaction import assignments, has_login, http_address, without_login

SECRET = "hunter2"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        (f"http://alice:{SECRET}@host:8081/path", "http://host:8081/path"),
        (f"https://{SECRET}@host", "https://host"),
        (f"http://a:{SECRET}@one:1,http://b:{SECRET}@two:2", "http://one:1,http://two:2"),
        (f"http://alice:{SECRET}@x@host", "http://host"),
        (f"//alice:{SECRET}@host", "//host"),
        ("http://host/path@2?a=b@c", "http://host/path@2?a=b@c"),
    ],
)
def test_a_login_is_taken_out_of_addresses(address: str, shown: str) -> None:
    assert without_login(address) == shown
    assert has_login(address) == (address != shown)


@pytest.mark.parametrize("url", ["host:8081", "ftp://host", "http://", "http://host:port", "http://host:0", "http://["])
def test_what_is_no_address_of_a_door(url: str) -> None:
    assert http_address(url) is None


def test_an_address_of_a_door() -> None:
    parts = http_address(f"https://alice:{SECRET}@host:8081/path")
    assert parts is not None
    assert (parts.hostname, parts.port, parts.password) == ("host", 8081, SECRET)


def test_settings_are_taken_apart() -> None:
    assert assignments(["a=1", " b =x=y", "a="]) == ({"a": "", "b": "x=y"}, "")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([SECRET], "--set is not name=value"),
        (["a=1", "b=2", SECRET], "the 3rd --set is not name=value"),
        (["a=1"] * 10 + [f"={SECRET}"], "the 11th --set is not name=value"),
    ],
)
def test_what_is_no_setting_is_told_by_its_number(arguments: list[str], told: str) -> None:
    assert assignments(arguments)[1] == told
