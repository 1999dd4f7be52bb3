"""One registry among several: serves reads from its own state, writes where it leads, and forwards writes where it does
not.

`leader` and `is_leading` are changed only by the election and by a write that found out that another leads. Writes are
decided one after the other; those that wait at the same time are one transaction (`group_commit.py`). A follower that
forwarded a write answers once it has read that write itself, so that whoever asks it next sees it.
"""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.registry import errors
from headwater.registry.config import RegistryConfig
from headwater.registry.decisions.registering import Registry
from headwater.registry.decisions.schema_parser import SchemaParser
from headwater.registry.decisions.steps import Steps
from headwater.registry.election import Elector, Identity
from headwater.registry.group_commit import Decide, GroupCommit, TakesLong
from headwater.registry.schema_log import NotLeading, SchemaLog, WriteFailed, WriteTimedOut
from headwater.registry.state import State
from headwater.web.client import Answer, HttpClient, HttpClientError
from headwater.web.door_security import forwarding_tls
from headwater.web.messages import Headers, HttpError, Request, Response
from headwater.web.parser import origin_form

logger = logging.getLogger("headwater.registry")

T = TypeVar("T")

OFFSET_HEADER: Final = "X-Headwater-Offset"  # of the last record of a write, for a follower that forwarded it
FORWARD_HEADER: Final = "X-Forward"
_IN_PLACE_BYTES_MAX: Final = 20_000  # work about less text than this takes less time than handing it over
_WORKERS: Final = 2
_PASSED_ON: Final = ("content-type", "accept", "authorization")
_PASSED_BACK: Final = {
    "content-type": "Content-Type",
    "www-authenticate": "WWW-Authenticate",
    "retry-after": "Retry-After",
}
_AGAIN_S: Final = 0.3
_LAST_ANSWER_S: Final = 2.0  # that a leader has for what it was asked before another was elected
_DOES_NOT_LEAD: Final = 50004


def _named(headers: Headers, wanted: Mapping[str, str]) -> dict[str, str]:
    """The first value of each, which is the one that counts here, under the name that it is given."""
    found = {new: headers.get(name) for name, new in wanted.items()}
    return {name: value for name, value in found.items() if value is not None}


class RegistryNode:
    def __init__(self, config: RegistryConfig, identity: Identity) -> None:
        self.config = config
        self.identity = identity
        self.leader: Identity | None = None
        self.is_leading = False
        self._log = SchemaLog(config)
        self._parser = SchemaParser()
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="schemas")
        self._commits = GroupCommit(self, self._log)
        self._elected = asyncio.Event()  # set while a leader is known
        self._leader_changed = asyncio.Event()
        self._leader_replaced = asyncio.Event()  # one for each leader
        self._client = HttpClient(tls=forwarding_tls(config.given) if identity.scheme == "https" else None)
        self._elector: Elector | None = None
        self._election: asyncio.Task[None] | None = None

    @property
    def state(self) -> State:
        return self._log.state

    @property
    def cluster_id(self) -> str:
        """Of the brokers."""
        return self._log.cluster_id

    @property
    def registry(self) -> Registry:
        return self.registry_with(self._log.state)

    def registry_with(self, state: State) -> Registry:
        return Registry(state, self.config.rules, self._parser)

    async def open(self) -> None:
        """Everything that was registered is known when this returns; who leads is found out meanwhile. Raises
        UserError.
        """
        await self._log.open()

    def begin_election(self) -> None:
        """When this registry can be reached, since others may forward to it."""
        self._elector = Elector(
            self.config.client(),
            self.config.text("schema.registry.group.id"),
            self.config.number("schema.registry.group.session.timeout.ms"),
            self.identity,
            self._on_assignment,
            beside_brokers=self.config.is_beside_brokers,
        )
        self._election = asyncio.create_task(self._elect(self._elector))

    async def broken(self) -> UserError:
        assert self._election is not None
        reading = asyncio.create_task(self._log.failed())
        try:
            await asyncio.wait({reading, self._election}, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                return reading.result()
            self._election.result()  # raises: it never ends by itself
            raise AssertionError("the election ended")
        finally:
            reading.cancel()

    async def close(self) -> None:
        if self._election is not None:
            self._election.cancel()
            await asyncio.wait({self._election})
        self.is_leading = False
        await self._commits.close()
        await self._log.close()
        if self._elector is not None:
            await self._elector.close()
        await self._client.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    # Decisions

    async def run(self, steps: Steps[T], *, in_place_only: bool = False) -> T:
        """Carries a decision out; what may take long is done by a thread, and so is the rest of much that is short.
        Raises TakesLong instead if it is to be done in place.
        """
        result: Any = None
        in_place_bytes = 0
        problem: Exception | None = None
        loop = asyncio.get_running_loop()
        while True:
            try:
                work = steps.throw(problem) if problem is not None else steps.send(result)
            except StopIteration as end:
                value: T = end.value
                return value
            result, problem = None, None
            try:
                if in_place_bytes + work.size_bytes <= _IN_PLACE_BYTES_MAX:
                    in_place_bytes += work.size_bytes
                    result = work.run()
                elif in_place_only:
                    steps.close()
                    raise TakesLong
                else:
                    result = await loop.run_in_executor(self._pool, work.run)
            except TakesLong:
                raise
            except Exception as error:  # noqa: BLE001 - the decision's to handle
                problem = error

    async def write(self, request: Request, decide: Decide) -> tuple[Any, dict[str, str]] | Response:
        """The document to answer and headers for it, or the leader's own answer. Raises HttpError. Tried again, until
        the time is up, only while it is certain that nothing was written.
        """
        is_forwarded = request.headers.get(FORWARD_HEADER) is not None
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.config.number("kafkastore.timeout.ms") / 1000
        while True:
            await self._until_elected(deadline - loop.time())
            if self.is_leading:
                try:
                    # A client that goes away does not stop a write halfway: the next one must know how it ended.
                    answer, offset = await self._commits.write(decide)
                except NotLeading:
                    continue
                except WriteTimedOut as problem:
                    raise errors.timed_out(f"Writing to the topic of schemas timed out: {problem}") from None
                except WriteFailed as problem:
                    raise errors.store_failed(f"Error while writing to the topic of schemas: {problem}") from None
                # Who forwarded it reads as far before it answers, also where nothing is written: what was decided on
                # may be news to it.
                return answer, {OFFSET_HEADER: str(offset)} if is_forwarded else {}
            if is_forwarded:
                raise HttpError(503, "The registry that was asked as the leader does not lead", _DOES_NOT_LEAD)
            if self.leader is not None:
                leader = self.leader
                forwarded = await self._forward(request, leader)
                if forwarded is not None:
                    return forwarded
                await self._until_another_leads(leader, deadline - loop.time())

    async def _until_elected(self, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await self._elected.wait()
        except TimeoutError:
            raise errors.unknown_leader("Leader not known: nobody was elected in time.") from None

    async def _until_another_leads(self, than: Identity | None, timeout_s: float) -> None:
        """Or for a moment: the leader may have started again at the same address."""
        if timeout_s <= 0:
            raise errors.forwarding_failed("Error while forwarding the request: the leader does not answer")
        if self._elector is not None:
            self._elector.check_soon()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(_AGAIN_S, timeout_s)):
                while self.leader == than:
                    self._leader_changed.clear()
                    await self._leader_changed.wait()

    async def _forward(self, request: Request, leader: Identity) -> Response | None:
        """None: it was not done, because the leader could not be reached or does not lead any more."""
        if leader.is_loopback and not self.config.is_beside_brokers:
            raise errors.forwarding_failed(
                f"The leader says that it is at {leader.url}, which every machine is: set listeners or host.name there"
            )
        headers = _named(request.headers, {name: name for name in _PASSED_ON})
        timeout_s = self.config.number("leader.read.timeout.ms") / 1000
        try:
            answer = await self._unless_another_leads(
                leader,
                self._client.request(
                    request.method,
                    leader.url + origin_form(request.target),
                    headers={**headers, FORWARD_HEADER: "true"},
                    body=request.body,
                    timeout_s=timeout_s,
                    connect_timeout_s=self.config.number("leader.connect.timeout.ms") / 1000,
                    unless=self._leader_replaced,
                ),
            )
        except HttpClientError as problem:
            if not problem.was_sent:
                return None
            raise errors.forwarding_failed(f"Error while forwarding the request to the leader: {problem}") from None
        if answer.status == 503 and b'"error_code":%d' % _DOES_NOT_LEAD in answer.body:
            return None
        offset = answer.headers.get(OFFSET_HEADER)
        if offset is not None and offset.isascii() and offset.isdigit():
            try:
                await self._log.wait_for(int(offset), timeout_s)
            except TimeoutError:
                raise errors.timed_out("The write was done, and has not reached this registry yet") from None
        return Response(answer.status, answer.body, _named(answer.headers, _PASSED_BACK))

    async def _unless_another_leads(self, leader: Identity, asking: Coroutine[Any, Any, Answer]) -> Answer:
        """The leader's answer. Once another leads, it has a moment left: one that lives says at once that it was
        replaced, and one that is cut off or stopped says nothing for as long as it may.
        """
        answering = asyncio.create_task(asking)
        replaced = asyncio.create_task(self._another_leads(leader))
        try:
            await asyncio.wait({answering, replaced}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                await asyncio.wait({answering}, timeout=_LAST_ANSWER_S)
            if not answering.done():
                raise HttpClientError(f"{leader.url} does not answer, and another registry leads by now")
            return answering.result()
        finally:
            answering.cancel()
            replaced.cancel()

    async def _another_leads(self, leader: Identity) -> None:
        while self.leader is None or self.leader.url == leader.url:
            self._leader_changed.clear()
            await self._leader_changed.wait()

    # Leading

    async def _elect(self, elector: Elector) -> None:
        with contextlib.suppress(NotLeading, WriteFailed, KafkaError, TimeoutError):  # the election decides then
            standing = await elector.standing()
            if self.identity.is_eligible and standing.is_unopposed:
                await self._lead(self.identity)
            elif standing.leader is not None:
                self._set_leader(standing.leader, leads=False)
        await elector.run()

    async def _on_assignment(self, leader: Identity | None, is_mine: bool) -> None:
        if is_mine and leader is not None:
            if not self.is_leading:
                try:
                    await self._lead(leader)
                except (NotLeading, WriteFailed) as problem:
                    raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"could not begin to lead: {problem!r}") from None
            return
        self._set_leader(leader, leads=False)
        if self._log.is_writer:
            # A write under way has a moment to end: brokers that can be reached say at once what became of it.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LAST_ANSWER_S), self._commits.turn:
                    pass
            await self._log.resign()

    async def _lead(self, identity: Identity) -> None:
        async with self._commits.turn:
            await self._log.lead()
            self._set_leader(identity, leads=True)
        logger.info("event=leading url=%s offset=%d", identity.url, self._log.applied_offset)

    async def lose(self) -> None:
        """A write found out, and has the turn: whether this one is still to lead is asked of the group."""
        if self.is_leading:
            self._set_leader(None, leads=False)
        await self._log.resign()
        if self._elector is not None:
            self._elector.check_soon()

    def _set_leader(self, leader: Identity | None, *, leads: bool) -> None:
        if leader != self.leader:
            self._leader_replaced.set()
            self._leader_replaced = asyncio.Event()
        self.leader, self.is_leading = leader, leads
        self._leader_changed.set()
        if self._elector is not None:
            self._elector.is_leading(leads)
        if leader is None:
            self._elected.clear()
        else:
            self._elected.set()
