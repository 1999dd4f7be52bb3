"""Writes at a registry that does not lead, and long decisions beside others. No brokers."""

import asyncio
import threading
from dataclasses import replace
from typing import Any

import pytest

from headwater.registry.config import RegistryConfig
from headwater.registry.decisions.registering import Registry
from headwater.registry.decisions.steps import Decision, Steps, Work
from headwater.registry.election import Identity
from headwater.registry.node import FORWARD_HEADER, OFFSET_HEADER, RegistryNode
from headwater.web.messages import Headers, Request

OWN, OTHER = Identity("a.example", 8081), Identity("b.example", 8081)
REQUEST = Request("POST", "/subjects/s/versions", ("subjects", "s", "versions"))


def made() -> RegistryNode:
    return RegistryNode(RegistryConfig.of({"kafkastore.bootstrap.servers": "c.example:9092"})[0], OWN)


def decided(_registry: Registry) -> Steps[Decision]:
    yield Work(lambda: None, 1)
    return Decision([], "written here")


def test_a_write_does_not_wait_for_a_machine_that_is_gone_once_another_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection to a machine without power takes as long as it may, which is longer than an election."""

    async def write() -> Any:
        connecting = asyncio.Event()

        async def never(*_: Any, **__: Any) -> Any:
            connecting.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(asyncio, "open_connection", never)
        node = made()
        node._set_leader(OTHER, leads=False)  # as the group said before
        writing = asyncio.create_task(node.write(REQUEST, decided))
        await connecting.wait()
        node._set_leader(OWN, leads=True)
        try:
            return await writing
        finally:
            await node.close()

    assert asyncio.run(write()) == ("written here", {})


@pytest.mark.parametrize(
    ("headers", "told"), [(Headers(((FORWARD_HEADER, "true"),)), {OFFSET_HEADER: "41"}), (Headers(), {})]
)
def test_who_forwarded_is_told_how_far_to_read_also_where_nothing_was_written(
    headers: Headers, told: dict[str, str]
) -> None:
    """What was registered already may not have reached the follower, whose client asks for it next."""

    async def write() -> Any:
        node = made()
        node._log.applied_offset = 41
        node._set_leader(OWN, leads=True)
        try:
            return await node.write(replace(REQUEST, headers=headers), decided)
        finally:
            await node.close()

    assert asyncio.run(write()) == ("written here", told)


def test_much_that_is_short_does_not_keep_others_waiting() -> None:
    names: list[str] = []

    def steps() -> Steps[int]:
        for _ in range(10):
            yield Work(lambda: names.append(threading.current_thread().name), 5_000)
        return len(names)

    async def run() -> int:
        node = made()
        try:
            return await node.run(steps())
        finally:
            await node.close()

    assert asyncio.run(run()) == 10
    here = threading.current_thread().name
    assert [each == here for each in names] == [True] * 4 + [False] * 6
