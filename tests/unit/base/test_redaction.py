"""What messages repeat of addresses and arguments: never a login, and nothing of what may be a secret alone."""

import re

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

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
        (f"http://alice:{SECRET},x@host", "http://host"),
        (f"http://alice:x/{SECRET}@host", "http://host"),
        (f"http://alice:x?{SECRET}#@host:8081/path", "http://host:8081/path"),
        (f"http://one:1,http://b:{SECRET},x/@two:2,https://three", "http://one:1,http://two:2,https://three"),
        ("http://host/path@2?a=b@c", "http://host/path@2?a=b@c"),
        ("http://host:8081,http://[::1]:8081", "http://host:8081,http://[::1]:8081"),
    ],
)
def test_a_login_is_taken_out_of_addresses(address: str, shown: str) -> None:
    assert without_login(address) == shown
    assert has_login(address) == (address != shown)


@pytest.mark.parametrize("address", [f"alice:{SECRET}@host", f"http:/alice:{SECRET}//x@host", f"alice:{SECRET}//@host"])
def test_a_login_without_a_scheme_before_it_is_not_shown_either(address: str) -> None:
    assert SECRET not in without_login(address)


@given(st.text(), st.sampled_from(["host", "host:8081", "host:8081/path", "[::1]:8081"]))
@example("1/x", "host")  # reads like a port and a path
@example("8081?", "host")
@example("a,b//c@d", "host")
@example("\n@", "host")
def test_no_character_of_a_password_brings_a_part_of_it_out(password: str, host: str) -> None:
    assume(not re.search(r",\w+://", password))  # which is the next address
    assert without_login(f"http://alice:{password}@{host}") == f"http://{host}"
    pair = f"http://one:1,https://alice:{password}@{host},http://two:2"
    assert without_login(pair) == f"http://one:1,https://{host},http://two:2"


@pytest.mark.parametrize("url", ["https://keys.example:8443/realms/a@b/keys", "https://keys.example/a?b=c@d"])
def test_an_at_in_the_path_is_no_login(url: str) -> None:
    assert not has_login(url)


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
