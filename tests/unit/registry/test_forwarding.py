"""Writes at a registry that does not lead, and long decisions beside others. No brokers."""

import asyncio
import threading
from dataclasses import replace
from typing import Any, cast

import pytest

from headwater.client import AsyncProducer
from headwater.registry import node as registry_node
from headwater.registry.config import RegistryConfig
from headwater.registry.decisions.registering import Registry
from headwater.registry.decisions.steps import Decision, Steps, Work
from headwater.registry.election import Identity
from headwater.registry.node import FORWARD_HEADER, OFFSET_HEADER, RegistryNode
from headwater.registry.records import Key, Record
from headwater.web.client import Answer
from headwater.web.messages import Headers, HttpError, Request
from unit.registry.silent_producer import SilentProducer

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


def forwarded(monkeypatch: pytest.MonkeyPatch, leader: Identity, *, is_heard: bool) -> Any:
    """What a follower's client hears of a write that OTHER has, when `leader` leads; `is_heard`: OTHER answers then."""
    monkeypatch.setattr(registry_node, "_LAST_ANSWER_S", 60 if is_heard else 0)

    async def write() -> Any:
        node = made()
        asked, answer = asyncio.Event(), asyncio.get_running_loop().create_future()

        async def request(*_: Any, **__: Any) -> Answer:
            asked.set()
            found: Answer = await answer
            return found

        monkeypatch.setattr(node._client, "request", request)
        node._set_leader(OTHER, leads=False)
        writing = asyncio.create_task(node.write(REQUEST, decided))
        await asked.wait()
        node._set_leader(leader, leads=leader is OWN)
        try:
            if is_heard:
                done, _ = await asyncio.wait({writing}, timeout=0)
                assert not done
                answer.set_result(Answer(200, Headers(()), b"{}"))
            return await writing
        finally:
            await node.close()

    return asyncio.run(write())


@pytest.mark.parametrize("leader", [OWN, Identity("c.example", 8081)], ids=["this one", "a third one"])
def test_a_write_that_a_silent_leader_has_is_told_as_unknown_once_another_leads(
    leader: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had no answer for leader.read.timeout.ms, a minute, though the silent one could write nothing any more."""
    with pytest.raises(HttpError, match="another registry leads by now") as told:
        forwarded(monkeypatch, leader, is_heard=False)
    assert (told.value.status, told.value.code) == (500, 50003)


@pytest.mark.parametrize("leader", [OWN, replace(OTHER, leads=True)], ids=["replaced", "the same, elected again"])
def test_a_leader_that_answers_is_heard_though_another_leads(leader: Identity, monkeypatch: pytest.MonkeyPatch) -> None:
    assert forwarded(monkeypatch, leader, is_heard=True).status == 200


def test_a_leader_without_brokers_tells_who_waits_when_it_has_to_take_itself_for_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The write had an answer after two minutes, and the registry took no part in elections meanwhile."""
    monkeypatch.setattr(registry_node, "_LAST_ANSWER_S", 0)

    def registered(_registry: Registry) -> Steps[Decision]:
        yield Work(lambda: None, 1)
        return Decision([Record(Key("CONFIG", "s"), None)], "never told")

    async def write() -> None:
        node = made()
        producer = SilentProducer()
        node._log._producer = cast("AsyncProducer", producer)
        node._set_leader(OWN, leads=True)
        writing = asyncio.create_task(node.write(REQUEST, registered))
        await producer.begun.wait()
        await node._on_assignment(None, False)
        try:
            await writing
        finally:
            assert not node._log.is_writer
            await node.close()

    with pytest.raises(HttpError, match="another registry may lead by now") as told:
        asyncio.run(write())
    assert (told.value.status, told.value.code) == (500, 50001)


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
