"""Which topic a subject is, and what each call needs."""

import asyncio
import json
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headwater.base.acls import Operation
from headwater.registry import rights
from headwater.registry.api import make_door
from headwater.registry.decisions import settings
from headwater.registry.node import RegistryNode
from headwater.web.callers import Need, cluster, topic
from headwater.web.messages import Headers, HttpError, Request
from unit.registry.twin import Twin


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("orders-value", "orders"),
        ("orders-key", "orders"),
        ("orders", "orders"),
        ("com.example.Order", "com.example.Order"),
        ("orders-com.example.Order", "orders-com.example.Order"),
        (":.staging:orders-value", "orders"),
        ("-value", "-value"),
        (":.staging:", ""),
        ("a-value-key", "a-value"),
    ],
)
def test_the_topic_of_a_subject(subject: str, name: str) -> None:
    assert rights.topic_of(subject) == name


def asked(guard: rights.Guard, subject: str, query: str = "") -> tuple[object, ...]:
    return guard(Request("GET", "/", (), query, parameters={"subject": subject}))


def test_what_calls_need() -> None:
    assert asked(rights.READ, "t-value") == (topic(Operation.DESCRIBE, "t"),)
    assert asked(rights.DELETE, "t-value") == (topic(Operation.DELETE, "t"),)
    assert asked(rights.registration, "t-key") == (topic(Operation.WRITE, "t"),)
    forced = (topic(Operation.WRITE, "t"), topic(Operation.ALTER_CONFIGS, "t"))
    assert asked(rights.registration, "t-key", "force=true") == forced
    assert asked(rights.CHANGE_SETTINGS, "t-value") == (topic(Operation.ALTER_CONFIGS, "t"),)
    assert asked(rights.CHANGE_SETTINGS, ":.staging:") == (cluster(Operation.ALTER),)
    assert asked(rights.READ_SETTINGS, ":.staging:") == (cluster(Operation.DESCRIBE),)
    assert asked(rights.CHANGE_ALL_SETTINGS, "") == (cluster(Operation.ALTER),)


class Reader:
    """May read some topics, and nothing else."""

    name = "reader"
    may_everything = False

    def __init__(self, *topics: str) -> None:
        self._have = {topic(Operation.DESCRIBE, each) for each in topics}

    async def allowed(self, needs: Iterable[Need]) -> frozenset[Need]:
        return frozenset(self._have.intersection(needs))


def answered(twin: Twin, caller: Reader, *segments: str, query: str = "") -> Any:
    node = SimpleNamespace(state=twin.state, config=SimpleNamespace(rules=twin.registry.rules))
    headers = Headers((("host", "127.0.0.1"),))
    request = Request("GET", "/", segments, query, headers=headers, caller=caller)
    try:
        response = asyncio.run(make_door(cast("RegistryNode", node)).handle(request))
    except HttpError as error:
        return error.status
    assert isinstance(response.body, bytes)
    return json.loads(response.body)


def test_an_alias_opens_nothing_and_is_itself_not_told_to_everybody() -> None:
    twin = Twin()
    twin.register("orders-value", '"int"')
    twin.register("secret-value", '"long"')
    twin.write(settings.set_config(twin.state, "merger-value", {"alias": "orders-value"}))
    twin.write(settings.set_config(twin.state, "mine-value", {"alias": "secret-value"}))
    reader, insider = Reader("orders", "mine"), Reader("orders", "merger")

    def listed(caller: Reader) -> list[tuple[str, list[str] | None]]:
        found = answered(twin, caller, "schemas", query="aliases=true")
        return [(each["subject"], each.get("aliases")) for each in found]

    assert listed(reader) == [("orders-value", None)]
    assert listed(insider) == [("orders-value", ["merger-value"])]
    for each in ("mine-value", ":.:mine-value"):
        assert answered(twin, reader, "subjects", each, "versions") == 403
        assert answered(twin, reader, "contexts", ".", "subjects", each, "versions") == 403
        assert answered(twin, reader, "schemas", "ids", "2", query=f"subject={each}") == 404
    assert answered(twin, reader, "subjects", "merger-value", "versions") == [1]
