"""Writes that share a transaction: what each of them sees, and what they hear when it fails.
The log is made up here.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.registry.decisions import registering, settings
from headwater.registry.decisions.documents import schema_request
from headwater.registry.decisions.registering import Registry
from headwater.registry.decisions.schema_parser import SchemaParser
from headwater.registry.decisions.steps import Decision, Rules, Steps, Work
from headwater.registry.group_commit import Decide, GroupCommit
from headwater.registry.node import RegistryNode
from headwater.registry.records import Record
from headwater.registry.schema_log import NotLeading, WriteFailed
from headwater.registry.state import State
from headwater.web.messages import HttpError

LONG = 1_000_000


class Log:
    """Holds the first transaction until `go` is set; the others run at once.
    `problems`: of the transactions, in turn.
    """

    def __init__(self) -> None:
        self.state = State()
        self.applied_offset = -1
        self.transactions: list[list[Record]] = []
        self.begun, self.go = asyncio.Event(), asyncio.Event()
        self.problems: list[Exception] = []
        self.too_large = ""

    async def write(self, records: list[Record]) -> int:
        self.begun.set()
        await self.go.wait()
        if self.too_large and any(self.too_large in str(each.value) for each in records):
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE)
        if self.problems:
            raise self.problems.pop(0)
        self.transactions.append(records)
        for each in records:
            self.state.apply_record(each.key, each.value)
            self.applied_offset += 1
        return self.applied_offset


class Node:
    """Leads, until it loses."""

    def __init__(self) -> None:
        self.is_leading = True
        self.lost = 0
        self.log = Log()
        self.commits = GroupCommit(self, self.log)
        self._parser = SchemaParser()
        self._pool = None  # the loop's own

    def registry_with(self, state: State) -> Registry:
        return Registry(state, Rules(), self._parser)

    async def run(self, steps: Steps[Decision], *, in_place_only: bool = False) -> Decision:
        return await RegistryNode.run(cast("RegistryNode", self), steps, in_place_only=in_place_only)

    async def lose(self) -> None:
        self.is_leading = False
        self.lost += 1


def registration(subject: str, text: str) -> Decide:
    return lambda registry: registering.registration(registry, subject, schema_request({"schema": text}))


def fixed(size: int) -> str:
    return f'{{"type":"fixed","name":"F","size":{size}}}'


def played(script: Callable[[Node], Awaitable[Any]]) -> Any:
    async def play() -> Any:
        node = Node()
        try:
            return await script(node)
        finally:
            await node.commits.close()

    return asyncio.run(play())


async def beside(node: Node, *decides: Decide) -> list[Any]:
    """The answers to the first and to those that come while its transaction runs, errors among them."""
    tasks = [asyncio.create_task(node.commits.write(decides[0]))]
    await node.log.begun.wait()
    tasks += [asyncio.create_task(node.commits.write(each)) for each in decides[1:]]
    await asyncio.sleep(0)
    node.log.go.set()
    answers: list[Any] = await asyncio.gather(*tasks, return_exceptions=True)
    return answers


def ids(answers: list[Any]) -> list[tuple[int, int]]:
    return [(answer["id"], answer["version"]) for answer, _ in answers]


def test_writes_that_wait_at_the_same_time_share_one_transaction() -> None:
    async def script(node: Node) -> Any:
        answers = await beside(node, *(registration(f"s{each}", fixed(each)) for each in range(1, 6)))
        return ids(answers), [offset for _, offset in answers], [len(each) for each in node.log.transactions]

    assert played(script) == ([(1, 1), (2, 1), (3, 1), (4, 1), (5, 1)], [0, 4, 4, 4, 4], [1, 4])


def test_each_sees_those_before_it_and_nobody_else_does() -> None:
    """The same schema twice, the next version of a subject that is new itself, and one that is not compatible to it."""
    mine, next_ = '{"type":"enum","name":"E","symbols":["a"]}', '{"type":"enum","name":"E","symbols":["a","b"]}'

    async def script(node: Node) -> Any:
        seen: list[int] = []

        def looking(registry: Registry) -> Steps[Decision]:
            seen.append(len(registry.state.subjects))
            seen.append(len(node.log.state.subjects))
            yield from ()
            return Decision([], {"id": 0, "version": 0})

        wanted = [registration("s", text) for text in (mine, mine, next_, '"int"')]
        answers = await beside(node, registration("first", '"int"'), *wanted, looking)
        refused = answers.pop(4)
        return ids(answers), refused.code, seen, [len(each) for each in node.log.transactions]

    assert played(script) == ([(1, 1), (2, 1), (2, 1), (3, 2), (0, 0)], 40901, [2, 1], [1, 2])


@pytest.mark.parametrize("problem", [WriteFailed("no answer"), NotLeading()])
def test_a_transaction_that_fails_is_told_to_all_whose_answers_stood_on_it(problem: Exception) -> None:
    """Also to one that would have been refused for a schema that is not written now, and to one that was there already;
    the node asks once who leads.
    """

    async def script(node: Node) -> Any:
        node.log.problems = [problem]
        async with node.commits.turn:  # so that all of them are in one transaction
            wanted = [registration("s", '"int"'), registration("s", '"int"'), registration("s", '{"type":"null"}')]
            writing = [asyncio.create_task(node.commits.write(each)) for each in wanted]
            await asyncio.sleep(0)
        node.log.go.set()
        answers = await asyncio.gather(*writing, return_exceptions=True)
        return [type(each) for each in answers], node.lost, node.log.state == State()

    assert played(script) == ([type(problem)] * 3, 1, True)


def test_who_waits_behind_a_leader_that_lost_is_told_that_nothing_was_written() -> None:
    async def script(node: Node) -> Any:
        node.log.problems = [NotLeading()]
        answers = await beside(node, registration("a", fixed(1)), registration("b", fixed(2)))
        return [type(each) for each in answers], node.lost, node.log.transactions

    assert played(script) == ([NotLeading, NotLeading], 1, [])


def test_a_schema_that_is_too_large_for_the_broker_is_told_to_who_sent_it_alone() -> None:
    async def script(node: Node) -> Any:
        node.log.too_large = "Large"
        large = '{"type":"fixed","name":"Large","size":9}'
        wanted = [registration("b", fixed(2)), registration("large", large), registration("c", fixed(3))]
        first, second, refused, third = await beside(node, registration("a", fixed(1)), *wanted)
        return ids([first, second, third]), refused.code, [len(each) for each in node.log.transactions], node.lost

    assert played(script) == ([(1, 1), (2, 1), (3, 1)], 42209, [1, 1, 1], 0)


def test_a_decision_that_takes_long_does_not_keep_those_before_it_waiting() -> None:
    async def script(node: Node) -> Any:
        def long(registry: Registry) -> Steps[Decision]:
            yield Work(lambda: None, LONG)
            return (yield from registering.registration(registry, "long", schema_request({"schema": fixed(8)})))

        wanted = [registration("a", fixed(1)), registration("b", fixed(2)), long, registration("c", fixed(3))]
        answers = await beside(node, *wanted)
        return ids(answers), [len(each) for each in node.log.transactions]

    assert played(script) == ([(1, 1), (2, 1), (3, 1), (4, 1)], [1, 1, 2])


def test_an_error_that_depends_on_nothing_unwritten_is_told_at_once() -> None:
    async def script(node: Node) -> Any:
        with pytest.raises(HttpError) as refused:
            await node.commits.write(registration("s", "no schema"))
        return refused.value.code, node.log.transactions

    assert played(script) == (42201, [])


def test_a_client_that_goes_away_does_not_stop_its_write() -> None:
    async def script(node: Node) -> Any:
        gone = asyncio.create_task(node.commits.write(registration("a", fixed(1))))
        await node.log.begun.wait()
        waiting = asyncio.create_task(node.commits.write(registration("b", fixed(2))))
        await asyncio.sleep(0)
        gone.cancel()
        waiting.cancel()
        await asyncio.wait({gone, waiting})
        node.log.go.set()
        await node.commits.write(registration("c", fixed(3)))
        return list(node.log.state.subjects)

    assert played(script) == ["a", "b", "c"]


def test_settings_and_deletions_share_it_too() -> None:
    def changed(_registry: Registry) -> Steps[Decision]:
        yield from ()
        return settings.set_mode(_registry.state, Rules(), "s", {"mode": "READONLY"}, force=False)

    async def script(node: Node) -> Any:
        wanted = [changed, registration("s", fixed(2))]
        answers = await beside(node, registration("a", fixed(1)), *wanted)
        return answers[1][0], answers[2].code, [len(each) for each in node.log.transactions]

    assert played(script) == ({"mode": "READONLY"}, 42205, [1, 1])


def test_those_who_wait_hear_of_their_writes_though_giving_up_the_lead_fails() -> None:
    async def script(node: Node) -> list[Any]:
        async def fails() -> None:
            raise RuntimeError("nobody foresaw this")

        node.lose = fails  # type: ignore[method-assign]
        node.log.problems = [WriteFailed("nobody knows")]
        node.log.go.set()
        writes = [node.commits.write(registration(subject, fixed(1))) for subject in ("a", "b")]
        found = await asyncio.gather(*writes, return_exceptions=True)
        with pytest.raises(RuntimeError):
            await node.commits._writing
        return found

    assert [type(each) for each in played(script)] == [WriteFailed, WriteFailed]


@pytest.mark.parametrize("problem", [WriteFailed("nobody knows"), NotLeading()])
def test_the_lead_is_given_up_before_anybody_can_take_it_again(problem: Exception) -> None:
    """Else the end of a lost lead could come behind the beginning of the next one, and end that."""

    async def script(node: Node) -> list[bool]:
        held: list[bool] = []

        async def lose() -> None:
            held.append(node.commits.turn.locked())

        node.lose = lose  # type: ignore[method-assign]
        node.log.problems = [problem]
        node.log.go.set()
        with pytest.raises(type(problem)):
            await node.commits.write(registration("a", fixed(1)))
        return held

    assert played(script) == [True]
