"""This worker's place in its group: one thread that joins, keeps in touch, and joins again when the group or the herder
wants it.

The member that the broker makes the group's leader decides who runs what (`Host.decide`) and is the leader of the
workers too. A worker that the group has forgotten stops everything (`Host.lost`) before it comes back: what it ran may
be another's by then. So does one that has not reached the coordinator for a session: the group may have forgotten it,
and cannot say so.
"""

import logging
import threading
import time
from collections.abc import Mapping
from typing import Final, Protocol, TypeVar

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.client import Admin
from headwater.client.session import COORDINATOR_MOVED, KeyType
from headwater.connect.distributed.assignor import Resources
from headwater.connect.distributed.group_protocol import PROTOCOL, PROTOCOL_TYPE, Assignment, MemberState
from headwater.connect.metrics.worker_metrics import Rebalances
from headwater.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headwater.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from headwater.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from headwater.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from headwater.wire.schema import Message

logger = logging.getLogger("headwater.connect")

_AGAIN_S: Final = 1.0
_LEAVE_MS: Final = 2000
_FORGOTTEN: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID)

R = TypeVar("R", bound=Message)


class Host(Protocol):
    """The herder, as its membership sees it. All of it is called by the membership's thread."""

    def held(self) -> Resources:
        """What runs here, or is about to."""

    def decide(self, members: Mapping[str, MemberState], leader: str) -> Mapping[str, Assignment]:
        """For the leader."""

    def assigned(self, assignment: Assignment, *, leads: bool, generation: int) -> None: ...

    def lost(self) -> None:
        """Returns when nothing runs here any more."""

    def refused(self, error: KafkaError) -> None:
        """The group will never take this worker."""


class Membership:
    """`joining` is this one's own: an answer to a join comes late, and what is asked behind it waits. Closed with
    it.
    """

    def __init__(
        self,
        joining: Admin,
        admin: Admin,
        group_id: str,
        url: str,
        host: Host,
        *,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        heartbeat_interval_ms: int,
        rebalances: Rebalances | None = None,
    ) -> None:
        self._joining, self._admin = joining, admin
        self._group_id, self._url, self._host = group_id, url, host
        self._session_timeout_ms, self._rebalance_timeout_ms = session_timeout_ms, rebalance_timeout_ms
        self._join_timeout_ms = rebalance_timeout_ms + session_timeout_ms
        self._heartbeat_s = heartbeat_interval_ms / 1000
        self._rebalances = rebalances
        self._place = ("", -1)  # member id and generation
        self._moved = threading.Condition()
        self._rejoin_at = float("inf")
        self._in_touch_at: float | None = None  # when the group last knew this worker; None: nothing runs here
        self._news = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="connect-membership", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def rejoin(self) -> None:
        """The group is to be balanced again. For any thread."""
        self._rejoin_at = 0.0
        self._news.set()

    def is_member(self) -> bool:
        """Asks the coordinator whether this worker belongs to the group as it thinks. For any thread; raises
        KafkaError. A generation that is over says nothing while this member joins the next one, which is asked about.
        """
        while True:
            member, generation = place = self._place
            request = HeartbeatRequest(group_id=self._group_id, generation_id=generation, member_id=member)
            code = ErrorCode(self._ask(self._admin, request, HeartbeatResponse, self._session_timeout_ms).error_code)
            if code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
                return bool(member)
            if code is ErrorCode.ILLEGAL_GENERATION and self._goes_on_from(place):
                continue
            if code in _FORGOTTEN:
                return False
            raise KafkaError(code, f"heartbeat in the group {self._group_id}")

    def _goes_on_from(self, place: tuple[str, int]) -> bool:
        """Whether the same member comes into another generation, before a join would have failed."""
        self._news.set()  # a thread that does not join finds out by a heartbeat
        with self._moved:
            self._moved.wait_for(lambda: self._closed or self._place != place, self._join_timeout_ms / 1000)
            return not self._closed and self._place != place and self._place[0] == place[0]

    def close(self) -> None:
        """Leaves the group, so that the others know at once."""
        with self._moved:
            self._closed = True
            self._moved.notify_all()
        self._news.set()
        self._thread.join(_LEAVE_MS / 1000)
        if self._member_id:
            member = MemberIdentity(member_id=self._member_id, reason="the worker is closed")
            leave = LeaveGroupRequest(group_id=self._group_id, member_id=self._member_id, members=[member])
            try:
                self._ask(self._admin, leave, LeaveGroupResponse, _LEAVE_MS)
            except KafkaError as error:
                logger.info("event=not-left group=%s reason=%r", self._group_id, str(error))
        self._joining.close()
        self._thread.join()

    @property
    def _member_id(self) -> str:
        return self._place[0]

    @property
    def _generation(self) -> int:
        return self._place[1]

    # In its thread

    def _move(self, member_id: str, generation: int) -> None:
        with self._moved:
            self._place = (member_id, generation)
            self._moved.notify_all()

    def _run(self) -> None:
        while not self._closed:
            try:
                self._give_up_if_out_of_touch()
                if self._join():
                    self._stay()
            except UserError:  # the client is closed
                return
            except (KafkaError, ValueError) as error:
                if isinstance(error, KafkaError) and error.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
                    self._host.refused(error)
                    return
                logger.warning("event=group-unreached group=%s reason=%.500r", self._group_id, str(error))
                if not self._closed:
                    time.sleep(_AGAIN_S)
            except Exception:  # a worker that stays away from its group without a word would be worse
                logger.exception("event=membership-failed group=%s", self._group_id)
                time.sleep(_AGAIN_S)

    def _join(self) -> bool:
        """Whether this worker has an assignment now; if not, it is to try again."""
        self._rejoin_at = float("inf")
        self._news.clear()
        if self._rebalances is not None:
            self._rebalances.begin()
        metadata = MemberState(self._url, self._host.held()).encode()
        request = JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=self._session_timeout_ms,
            rebalance_timeout_ms=self._rebalance_timeout_ms,
            member_id=self._member_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=PROTOCOL, metadata=metadata)],
        )
        joined = self._ask(self._joining, request, JoinGroupResponse, self._join_timeout_ms)
        code = ErrorCode(joined.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self._move(joined.member_id, self._generation)
            return False
        if code in _FORGOTTEN:
            self._forgotten()
            return False
        if code:
            raise KafkaError(code, f"joining the group {self._group_id}")
        self._move(joined.member_id, joined.generation_id)
        self._in_touch_at = time.monotonic()
        return self._sync(joined)

    def _sync(self, joined: JoinGroupResponse) -> bool:
        assignments = []
        if joined.leader == joined.member_id:
            members = {each.member_id: MemberState.decode(bytes(each.metadata)) for each in joined.members}
            decided = self._host.decide(members, joined.member_id)
            assignments = [
                SyncGroupRequestAssignment(member_id=member, assignment=each.encode())
                for member, each in decided.items()
            ]
        request = SyncGroupRequest(
            group_id=self._group_id,
            generation_id=self._generation,
            member_id=self._member_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=PROTOCOL,
            assignments=assignments,
        )
        synced = self._ask(self._joining, request, SyncGroupResponse, self._rebalance_timeout_ms)
        code = ErrorCode(synced.error_code)
        if code in _FORGOTTEN:
            self._forgotten()
        if code in (*_FORGOTTEN, ErrorCode.REBALANCE_IN_PROGRESS):
            return False
        if code:
            raise KafkaError(code, f"entering the group {self._group_id}")
        self._in_touch_at = time.monotonic()
        assignment = Assignment.decode(bytes(synced.assignment))
        if assignment.failed:
            time.sleep(_AGAIN_S)
            return False
        leads = assignment.leader == self._member_id
        if leads and assignment.delay_ms:
            self._rejoin_at = min(self._rejoin_at, time.monotonic() + assignment.delay_ms / 1000)
        self._host.assigned(assignment, leads=leads, generation=self._generation)
        if self._rebalances is not None:
            self._rebalances.end(self._generation, assignment.leader_url, PROTOCOL)
        return True

    def _stay(self) -> None:
        """Heartbeats, until the group is to be joined again."""
        while not self._closed:
            self._news.wait(max(0.0, min(self._heartbeat_s, self._rejoin_at - time.monotonic())))
            if self._closed or time.monotonic() >= self._rejoin_at:
                return
            self._news.clear()
            asked_at = time.monotonic()
            request = HeartbeatRequest(
                group_id=self._group_id, generation_id=self._generation, member_id=self._member_id
            )
            code = ErrorCode(self._ask(self._joining, request, HeartbeatResponse, self._session_timeout_ms).error_code)
            if code in _FORGOTTEN:
                self._forgotten()
                return
            if code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
                self._in_touch_at = asked_at
            if code is ErrorCode.REBALANCE_IN_PROGRESS:
                return
            if code:
                raise KafkaError(code, f"heartbeat in the group {self._group_id}")

    def _forgotten(self) -> None:
        logger.warning("event=forgotten-by-group group=%s member=%s", self._group_id, self._member_id)
        self._move("", self._generation)
        self._in_touch_at = None
        self._host.lost()

    def _give_up_if_out_of_touch(self) -> None:
        since = self._in_touch_at
        if since is None or time.monotonic() - since < self._session_timeout_ms / 1000:
            return
        logger.warning("event=out-of-touch group=%s member=%s", self._group_id, self._member_id)
        self._host.lost()
        self._in_touch_at = None

    def _ask(self, admin: Admin, request: Message, response_type: type[R], timeout_ms: int) -> R:
        return admin.run(
            lambda session: session.call_coordinator(
                self._group_id,
                KeyType.GROUP,
                request,
                response_type,
                lambda answer: int(answer.error_code),  # type: ignore[attr-defined]
                timeout_ms=timeout_ms,
                retriable=COORDINATOR_MOVED,
            )
        )
