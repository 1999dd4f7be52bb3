"""Which of several registries leads: the classic group protocol, with Confluent's own member metadata and assignment.

The member that the broker makes the group's leader names the registry that leads: the one that leads already, else the
one with the smallest URL of those that may. `elect` is pure; `Elector` keeps this member in the group and tells what
was decided. The election alone fences nobody: that is done by the transactional id of the writer.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from headwater.base.errors import ErrorCode, KafkaError
from headwater.client.reactor.aio import AioEngine
from headwater.client.session import COORDINATOR_MOVED, KeyType, Session
from headwater.client.settings.admin import read_admin_settings
from headwater.registry.records import encode_json
from headwater.web.listeners import HttpListener
from headwater.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from headwater.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headwater.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from headwater.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from headwater.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from headwater.wire.schema import Message

logger = logging.getLogger("headwater.registry")

PROTOCOL_TYPE: Final = "sr"
PROTOCOL: Final = "v0"
NO_ERROR: Final = 0
DUPLICATE_URLS: Final = 1
_AGAIN_S: Final = 1.0
_FORGOTTEN: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)

R = TypeVar("R", bound=Message)


@dataclass(frozen=True, slots=True)
class Identity:
    host: str
    port: int
    is_eligible: bool = True
    scheme: str = "http"
    leads: bool = False

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """An address that every machine has: of which one, it does not say."""
        return HttpListener(self.host, self.port).is_loopback

    def document(self) -> dict[str, Any]:
        return {
            "version": 1,
            "host": self.host,
            "port": self.port,
            "master_eligibility": self.is_eligible,
            "scheme": self.scheme,
            "leader": self.leads,
        }

    @classmethod
    def of(cls, document: Any) -> "Identity":
        """Raises ValueError for what is none."""
        try:
            eligible, leads = document.get("master_eligibility") is not False, document.get("leader") is True
            scheme = str(document.get("scheme") or "http")
            return cls(str(document["host"]), int(document["port"]), eligible, scheme, leads)
        except (KeyError, TypeError, AttributeError, OverflowError):
            raise ValueError("no identity of a registry") from None

    @classmethod
    def decode(cls, data: bytes) -> "Identity":
        """Raises ValueError, and nothing else: another member has written it."""
        try:
            return cls.of(json.loads(data))
        except RecursionError:
            raise ValueError("no identity of a registry") from None


@dataclass(frozen=True, slots=True)
class Assignment:
    """`leader` is a member id; None if nobody may lead."""

    leader: str | None
    identity: Identity | None
    error: int = NO_ERROR

    def encode(self) -> bytes:
        document: dict[str, Any] = {"error": self.error}
        if self.leader is not None and self.identity is not None:
            document |= {"master": self.leader, "master_identity": self.identity.document()}
        return encode_json({**document, "version": 1})

    @classmethod
    def decode(cls, data: bytes) -> "Assignment":
        """Raises ValueError, and nothing else: another member has written it."""
        try:
            document = json.loads(data)
            identity = document.get("master_identity")
            error = int(document.get("error") or NO_ERROR)
        except (TypeError, AttributeError, RecursionError, OverflowError):
            raise ValueError("no assignment") from None
        return cls(document.get("master"), None if identity is None else Identity.of(identity), error)


def elect(members: Mapping[str, Identity]) -> Assignment:
    """The registry that leads already, if there is one such; else the eligible one with the smallest URL."""
    eligible = {member: identity for member, identity in members.items() if identity.is_eligible}
    error = DUPLICATE_URLS if len({each.url for each in members.values()}) < len(members) else NO_ERROR
    leading = [member for member, identity in eligible.items() if identity.leads]
    if len(leading) == 1:
        chosen: str | None = leading[0]
    else:
        chosen = min(eligible, key=lambda member: (eligible[member].url, member), default=None)
    return Assignment(chosen, None if chosen is None else eligible[chosen], error)


def readable(metadata: Mapping[str, bytes]) -> dict[str, Identity]:
    """Of the members of the group, those that say who they are. Others cannot lead, and keep nobody from leading."""
    found = {}
    for member, each in metadata.items():
        try:
            found[member] = Identity.decode(each)
        except ValueError as problem:
            logger.warning("event=member-ignored member=%.200r reason=%.200r", member, str(problem))
    return found


def is_unopposed(own: Identity, metadata: Sequence[bytes], *, beside_brokers: bool) -> bool:
    """Whether nobody else is in the group: it is empty, or its members have our own address. Who listens there is this
    process, so they are what a crash left of its predecessor, and the group waits for the end of their session. Every
    machine has the loopback's addresses: they say so only `beside_brokers` that are reached over it.
    """
    if metadata and own.is_loopback and not beside_brokers:
        return False
    try:
        return all(Identity.decode(each).url == own.url for each in metadata)
    except ValueError:
        return False


def last_elected(own: Identity, assignments: Sequence[bytes]) -> Identity | None:
    """Whom the group elected before this registry came: writes are forwarded there until it has decided anew. None if
    it does not say, or if it was this registry's predecessor.
    """
    for each in assignments:
        try:
            leader = Assignment.decode(each).identity
        except ValueError:
            continue
        if leader is not None and leader.url != own.url:
            return leader
    return None


@dataclass(frozen=True, slots=True)
class Standing:
    """What the group says before this registry joins it."""

    is_unopposed: bool
    leader: Identity | None = None


class Elector:
    """`client` are a client's settings. `on_assignment(identity of the leader or None, whether it is this one)` is
    awaited whenever it is decided anew.
    """

    def __init__(
        self,
        client: Mapping[str, str],
        group_id: str,
        session_timeout_ms: int,
        identity: Identity,
        on_assignment: Callable[[Identity | None, bool], Awaitable[None]],
        *,
        beside_brokers: bool = False,
    ) -> None:
        self._beside_brokers = beside_brokers
        self._group_id = group_id
        self._session_timeout_ms = session_timeout_ms
        self._identity = identity
        self._on_assignment = on_assignment
        self._member_id = ""
        self._generation = -1
        settings = read_admin_settings(client, {})
        network = settings.network()
        self._engine = AioEngine(network)
        self._session = Session(self._engine.kernel, network, settings.session)
        self._beat = asyncio.Event()

    def is_leading(self, leads: bool) -> None:
        """For the next election: who leads goes on."""
        self._identity = replace(self._identity, leads=leads)

    def check_soon(self) -> None:
        """Asks the coordinator at once whether this member is still one, and tells again who leads if it is."""
        self._beat.set()

    async def standing(self) -> Standing:
        """Without waiting for an election. Unopposed: nobody leads who could be asked, so this registry leads at once.
        Two that begin at the same moment may both think so; the later one's producer fences the other's, and the
        election decides. Else the group may say who leads, and that one is asked meanwhile.
        """
        request = DescribeGroupsRequest(groups=[self._group_id])
        call = self._session.call_coordinator(
            self._group_id,
            KeyType.GROUP,
            request,
            DescribeGroupsResponse,
            lambda answer: answer.groups[0].error_code,
            timeout_ms=self._session_timeout_ms,
        )
        group = (await self._engine.run(call)).groups[0]
        if group.error_code:
            return Standing(group.error_code == ErrorCode.GROUP_ID_NOT_FOUND)
        metadata = [bytes(member.member_metadata) for member in group.members]
        if is_unopposed(self._identity, metadata, beside_brokers=self._beside_brokers):
            return Standing(True)
        return Standing(False, last_elected(self._identity, [bytes(each.member_assignment) for each in group.members]))

    async def run(self) -> None:
        """For ever. What fails is tried again; meanwhile this registry does not lead."""
        while True:
            try:
                assignment = await self._join()
                if assignment is not None:
                    await self._stay(assignment)
            except (KafkaError, TimeoutError, ValueError) as problem:
                logger.warning("event=election-failed group=%s reason=%.500r", self._group_id, str(problem))
                await self._on_assignment(None, False)
                await asyncio.sleep(_AGAIN_S)

    async def _join(self) -> Assignment | None:
        """None: the group goes on without this attempt; try again."""
        metadata = encode_json(self._identity.document())
        request = JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=self._session_timeout_ms,
            rebalance_timeout_ms=max(self._session_timeout_ms, 30_000),
            member_id=self._member_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=PROTOCOL, metadata=metadata)],
        )
        joined = await self._ask(request, JoinGroupResponse, timeout_ms=120_000)
        code = ErrorCode(joined.error_code)
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = joined.member_id
            return None
        if code in _FORGOTTEN:
            self._member_id = ""
            return None
        if code:
            raise KafkaError(code, f"joining the group {self._group_id}")
        self._member_id, self._generation = joined.member_id, joined.generation_id
        return await self._sync(joined)

    async def _sync(self, joined: JoinGroupResponse) -> Assignment | None:
        assignments = []
        if joined.leader == joined.member_id:
            decided = elect(readable({each.member_id: bytes(each.metadata) for each in joined.members}))
            encoded = decided.encode()
            assignments = [
                SyncGroupRequestAssignment(member_id=each.member_id, assignment=encoded) for each in joined.members
            ]
        request = SyncGroupRequest(
            group_id=self._group_id,
            generation_id=self._generation,
            member_id=self._member_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=PROTOCOL,
            assignments=assignments,
        )
        synced = await self._ask(request, SyncGroupResponse, timeout_ms=60_000)
        code = ErrorCode(synced.error_code)
        if code in _FORGOTTEN:
            self._member_id = ""
        if code in (*_FORGOTTEN, ErrorCode.REBALANCE_IN_PROGRESS):
            return None
        if code:
            raise KafkaError(code, f"entering the group {self._group_id}")
        assignment = Assignment.decode(bytes(synced.assignment))
        if assignment.error == DUPLICATE_URLS:
            logger.error("event=duplicate-urls url=%s hint='set host.name of each registry'", self._identity.url)
        url = assignment.identity.url if assignment.identity is not None else None
        logger.info("event=elected leader=%s mine=%s", url, assignment.leader == self._member_id)
        await self._tell(assignment)
        return assignment

    async def _tell(self, assignment: Assignment) -> None:
        await self._on_assignment(assignment.identity, assignment.leader == self._member_id)

    async def _stay(self, assignment: Assignment) -> None:
        """Heartbeats, until the group elects anew."""
        while True:
            try:
                async with asyncio.timeout(self._session_timeout_ms / 3000):
                    await self._beat.wait()
            except TimeoutError:
                pass
            asked = self._beat.is_set()
            self._beat.clear()
            request = HeartbeatRequest(
                group_id=self._group_id, generation_id=self._generation, member_id=self._member_id
            )
            answer = await self._ask(request, HeartbeatResponse, timeout_ms=self._session_timeout_ms)
            code = ErrorCode(answer.error_code)
            if code in _FORGOTTEN:
                self._member_id = ""
                await self._on_assignment(None, False)
                return
            if code == ErrorCode.REBALANCE_IN_PROGRESS:
                return
            if code:
                raise KafkaError(code, f"heartbeat in the group {self._group_id}")
            if asked:
                await self._tell(assignment)

    async def _ask(self, request: Message, response_type: type[R], *, timeout_ms: int) -> R:
        call = self._session.call_coordinator(
            self._group_id,
            KeyType.GROUP,
            request,
            response_type,
            lambda answer: int(answer.error_code),  # type: ignore[attr-defined]
            timeout_ms=timeout_ms,
            retriable=COORDINATOR_MOVED,
        )
        return await self._engine.run(call)

    async def close(self) -> None:
        """Leaves the group, so that another is elected at once."""
        if self._member_id:
            member = MemberIdentity(member_id=self._member_id, reason="the registry is closed")
            leave = LeaveGroupRequest(group_id=self._group_id, member_id=self._member_id, members=[member])
            try:
                async with asyncio.timeout(2):
                    await self._ask(leave, LeaveGroupResponse, timeout_ms=2000)
            except (KafkaError, TimeoutError) as problem:
                logger.info("event=not-left group=%s reason=%r", self._group_id, str(problem))
        self._engine.submit(self._session.close)
        self._engine.close()
