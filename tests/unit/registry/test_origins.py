"""Pages of others get nothing from a registry on a developer's machine; clients what they always got. And where a
registry says that it is.
"""

import asyncio
from typing import cast

import pytest

from headwater.registry.api import make_door
from headwater.registry.config import RegistryConfig
from headwater.registry.election import Identity
from headwater.registry.node import RegistryNode
from headwater.registry.service import advertised_listener
from headwater.registry.state import State
from headwater.web.listeners import parse_listener
from headwater.web.messages import Headers, HttpError, Request


class Node:
    state = State()


def _status(**headers: str) -> int:
    fields = tuple((name.replace("_", "-"), value) for name, value in ({"host": "127.0.0.1:8081"} | headers).items())
    request = Request("POST", "/", ("",), headers=Headers(fields), body=b"{}")
    try:
        return asyncio.run(make_door(cast("RegistryNode", Node())).handle(request)).status
    except HttpError as error:
        return error.status


@pytest.mark.parametrize(
    "kind", ["application/json; charset=utf-8", "application/vnd.schemaregistry.v1+json", "application/octet-stream"]
)
def test_clients_are_served(kind: str) -> None:
    assert _status(content_type=kind) == _status() != 415
    assert _status(content_type=kind, origin="http://127.0.0.1:8081") == _status()


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
def test_what_a_page_may_send_without_asking_is_refused(kind: str) -> None:
    assert _status(content_type=kind) == 415


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:9999", ""])
def test_a_page_of_another_origin_gets_nothing(origin: str) -> None:
    assert _status(content_type="application/json", origin=origin) == 403


def test_a_registry_says_the_address_that_others_reach() -> None:
    listeners = [parse_listener(each, 8081) for each in ("http://127.0.0.1:8081", "https://0.0.0.0:8082")]
    assert advertised_listener(listeners) == 1
    assert advertised_listener(listeners[:1]) == 0


def test_a_call_is_not_passed_on_to_ones_own_machine_for_another() -> None:
    async def told(brokers: str) -> str:
        config, _ = RegistryConfig.of({"kafkastore.bootstrap.servers": brokers})
        node = RegistryNode(config, Identity("a.example", 8081))
        request = Request("POST", "/subjects/s/versions", ("subjects", "s", "versions"))
        try:
            return str(await node._forward(request, Identity("127.0.0.1", 1)))
        except HttpError as error:
            return error.message

    assert "which every machine is" in asyncio.run(told("b.example:9092"))
    assert asyncio.run(told("localhost:9092,[::1]:9093")) == "None", "it is tried, and nobody listens"
