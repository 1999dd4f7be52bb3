"""Where doors listen: what is taken, what only this machine can reach, and that every door's default is there."""

import pytest

from headwater.base.errors import UserError
from headwater.connect.config.worker import COMMON_KEYS
from headwater.registry.config import RegistryConfig
from headwater.sql.server.config import SqlServerConfig
from headwater.streams.slot.settings import RunSettings
from headwater.web.listeners import HttpListener, parse_listener


@pytest.mark.parametrize(
    ("text", "listener", "loopback"),
    [
        ("http://127.0.0.1:1", ("127.0.0.1", 1, "http"), True),
        ("https://localhost:2", ("localhost", 2, "https"), True),
        ("HTTPS://[::1]:3", ("::1", 3, "https"), True),
        ("http://:4", ("", 4, "http"), False),
        ("http://0.0.0.0:5", ("0.0.0.0", 5, "http"), False),
        ("http://[::]:6", ("::", 6, "http"), False),
        ("http://registry.example", ("registry.example", 8081, "http"), False),
        ("http://127.1.2.3", ("127.1.2.3", 8081, "http"), True),
    ],
)
def test_listeners(text: str, listener: tuple[str, int, str], loopback: bool) -> None:
    found = parse_listener(text, 8081)
    assert found == listener
    assert found.is_loopback == loopback
    assert found.is_secured == (listener[2] == "https")


@pytest.mark.parametrize("text", ["ftp://a:1", "127.0.0.1:1", "http://a:b", "http://a:99999", "http://a:-1"])
def test_what_cannot_be(text: str) -> None:
    with pytest.raises(UserError):
        parse_listener(text, 8081)


def test_addresses_for_people() -> None:
    assert HttpListener("0.0.0.0", 0, "https").url(7) == "https://127.0.0.1:7"
    assert HttpListener("::1", 8).url() == "http://[::1]:8"


def test_without_a_word_every_door_is_for_this_machine_alone() -> None:
    connect = next(key for key in COMMON_KEYS if key.name == "listeners")
    listeners = [
        *RegistryConfig.of({})[0].listeners,
        *SqlServerConfig.of({})[0].listeners,
        *(parse_listener(each, 8083) for each in connect.default),
        HttpListener(RunSettings.__dataclass_fields__["queries_host"].default, 0),
    ]
    assert all(each.is_loopback for each in listeners), listeners
