"""Committed offsets: read, written, in order.

Every commit takes a number. One that waits to be tried again looks, partition by partition, whether a newer commit was
begun meanwhile: then it is not tried again there, because it would take the group back. A commit carries the
membership's generation of the moment it is sent; so it is not sent for partitions that were given up since it was
begun. Owned by the core.
"""

from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.errors import CommitFailed
from headwater.client.consumer.membership.port import Membership
from headwater.client.consumer.positions import OffsetAndMetadata
from headwater.client.errors import ConnectionFailed, RequestTimedOut, error_for
from headwater.client.reactor.kernel import Task, TimedOut
from headwater.client.session import COORDINATOR_MOVED, GROUP_CHANNEL, Session
from headwater.wire.messages import offset_commit as wire_commit
from headwater.wire.messages import offset_fetch as wire_fetch

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
T = TypeVar("T")
CommitCallback = Callable[[dict[TopicPartition, OffsetAndMetadata], KafkaError | None], Any]

_BY_NAME_MAX: Final = 9  # from version 10 on, topics are known by their ids
_GROUPS_SINCE: Final = 8
_NO_OFFSET: Final = -1
_OF_THE_MEMBERSHIP: Final = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.REBALANCE_IN_PROGRESS,
    }
)
_MAY_PASS: Final = COORDINATOR_MOVED | {
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.NETWORK_EXCEPTION,
}


class CommitOrder:
    """Pure: which commit is the newest of each partition, and which are of a time before it was given up."""

    def __init__(self) -> None:
        self._number = 0
        self._newest: dict[TopicPartition, int] = {}
        self._given_up: dict[TopicPartition, int] = {}  # the last commit before it

    def begin(self, partitions: Iterable[TopicPartition]) -> int:
        self._number += 1
        for each in partitions:
            self._newest[each] = self._number
        return self._number

    def still_newest(self, number: int, offsets: Offsets) -> dict[TopicPartition, OffsetAndMetadata]:
        """What of a commit may be tried again."""
        return {each: offset for each, offset in offsets.items() if self._newest.get(each, 0) <= number}

    def give_up(self, partitions: Iterable[TopicPartition]) -> None:
        """They are another member's from here on."""
        self._given_up.update(dict.fromkeys(partitions, self._number))

    def still_held(self, number: int, offsets: Offsets) -> dict[TopicPartition, OffsetAndMetadata]:
        """What of a commit may be sent."""
        return {each: offset for each, offset in offsets.items() if self._given_up.get(each, 0) < number}


class Finished(NamedTuple):
    """An asynchronous commit whose callback waits for the next poll."""

    callback: CommitCallback
    offsets: dict[TopicPartition, OffsetAndMetadata]
    error: KafkaError | None


class Commits:
    """`membership` gives the one of now, if there is one. `news` is called when a callback waits."""

    def __init__(
        self,
        session: Session,
        group_id: str | None,
        membership: Callable[[], Membership | None],
        news: Callable[[], None],
    ) -> None:
        self.order = CommitOrder()
        self.finished: deque[Finished] = deque()
        self.counters = dict.fromkeys(("commits", "commit_errors"), 0)
        self._session = session
        self._group_id = group_id
        self._membership = membership
        self._news = news
        self._under_way: set[Task[None]] = set()

    @property
    def group_id(self) -> str:
        if not self._group_id:
            raise UserError(
                "A consumer without a group has no committed offsets", "group.id is not set", "Give it a group.id"
            )
        return self._group_id

    # Writing

    async def commit(self, offsets: Offsets, *, timeout_ms: int | None = None) -> None:
        """Waits until the group has them; tries again what may pass. Raises CommitFailed."""
        if offsets:
            group_id = self.group_id
            number = self.order.begin(offsets)
            deadline = self._session.deadline(timeout_ms)
            try:
                await self._until(deadline, self._commit(group_id, dict(offsets), number, deadline))
            except TimedOut:
                raise CommitFailed(ErrorCode.REQUEST_TIMED_OUT, f"group {group_id!r}: no answer in time") from None

    def commit_async(self, offsets: Offsets, callback: CommitCallback | None) -> None:
        """Sent at once. The callback waits in `finished`."""
        group_id = self.group_id
        number = self.order.begin(offsets)
        task = self._session.kernel.spawn(self._commit_quietly(group_id, dict(offsets), number, callback), "commit")
        self._under_way.add(task)
        task.when_done(lambda _: self._under_way.discard(task))

    async def _until(self, deadline: float, coroutine: Coroutine[Any, Any, T]) -> T:
        """The coroutine's result; when the time is up, or the caller is stopped, it is stopped too."""
        kernel = self._session.kernel
        task = kernel.spawn(coroutine)
        try:
            return await kernel.within(max(0.0, deadline - kernel.clock()), task)
        finally:
            task.cancel()

    async def settle(self) -> None:
        """Until no asynchronous commit is under way."""
        for task in list(self._under_way):
            if not task.done:
                await task

    async def _commit_quietly(
        self,
        group_id: str,
        offsets: dict[TopicPartition, OffsetAndMetadata],
        number: int,
        callback: CommitCallback | None,
    ) -> None:
        error: KafkaError | None = None
        try:
            if offsets:
                await self._commit(group_id, offsets, number, self._session.deadline())
        except KafkaError as problem:
            error = problem
        if callback is not None:
            self.finished.append(Finished(callback, offsets, error))
            self._news()

    async def _commit(
        self, group_id: str, offsets: dict[TopicPartition, OffsetAndMetadata], number: int, deadline: float
    ) -> None:
        attempt = 0
        left = offsets
        while True:
            code = await self._attempt(group_id, left, number)
            if code == ErrorCode.NONE:
                self.counters["commits"] += 1
                return
            self.counters["commit_errors"] += 1
            if code not in _MAY_PASS or not await self._session.pause(attempt, deadline):
                raise CommitFailed(code, f"group {group_id!r}: {_reason(code)}")
            attempt += 1
            left = self.order.still_newest(number, left)
            if not left:
                raise CommitFailed(code, f"group {group_id!r}: a newer commit took its place", superseded=True)

    async def _attempt(self, group_id: str, offsets: dict[TopicPartition, OffsetAndMetadata], number: int) -> ErrorCode:
        """One request; the first error in the answer."""
        try:
            broker = await self._session.coordinator(group_id)
            link = await self._session.link(broker, GROUP_CHANNEL)
            held = self.order.still_held(number, offsets)
            if not held:
                return ErrorCode.ILLEGAL_GENERATION
            request = self._request(group_id, held)  # with the generation of now
            if request is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            response = await link.call(request, wire_commit.OffsetCommitResponse, at_most=_BY_NAME_MAX)
        except (ConnectionFailed, RequestTimedOut) as error:
            self._session.forget_coordinator(group_id)
            return error.code
        codes = [each.error_code for topic in response.topics for each in topic.partitions if each.error_code]
        if not codes:
            return ErrorCode.NONE
        code = error_for(codes[0]).code
        membership = self._membership()
        if code in COORDINATOR_MOVED and code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            self._session.forget_coordinator(group_id)
        elif code in _OF_THE_MEMBERSHIP and membership is not None:
            membership.failed(code, request.generation_id_or_member_epoch)
        return code

    def _request(self, group_id: str, offsets: Offsets) -> wire_commit.OffsetCommitRequest | None:
        """None: the consumer subscribes, but is not a member. To the broker it would look like one that never joins."""
        topics: dict[str, wire_commit.OffsetCommitRequestTopic] = {}
        for each, offset in offsets.items():
            topic = topics.setdefault(each.topic, wire_commit.OffsetCommitRequestTopic(name=each.topic, partitions=[]))
            topic.partitions.append(
                wire_commit.OffsetCommitRequestPartition(
                    partition_index=each.partition,
                    committed_offset=offset.offset,
                    committed_leader_epoch=offset.leader_epoch,
                    committed_metadata=offset.metadata,
                )
            )
        membership = self._membership()
        request = wire_commit.OffsetCommitRequest(group_id=group_id, member_id="", topics=list(topics.values()))
        if membership is not None:
            if membership.generation < 0:
                return None
            request.generation_id_or_member_epoch = membership.generation
            request.member_id = membership.member_id
            request.group_instance_id = membership.group_instance_id
        return request

    # Reading

    async def committed(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Those that have one. Waits for transactions that may yet change them."""
        group_id = self.group_id
        deadline = self._session.deadline(timeout_ms)
        try:
            return await self._until(deadline, self._committed(group_id, list(partitions), deadline))
        except TimedOut:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"group {group_id!r}: no answer in time") from None

    async def _committed(
        self, group_id: str, partitions: list[TopicPartition], deadline: float
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        attempt = 0
        while True:
            try:
                return await self._ask(group_id, partitions)
            except KafkaError as error:
                if error.code in COORDINATOR_MOVED or isinstance(error, ConnectionFailed | RequestTimedOut):
                    self._session.forget_coordinator(group_id)
                if error.code not in _MAY_PASS or not await self._session.pause(attempt, deadline):
                    raise
                attempt += 1

    async def _ask(self, group_id: str, partitions: list[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        topics: dict[str, list[int]] = {}
        for each in partitions:
            topics.setdefault(each.topic, []).append(each.partition)
        link = await self._session.link(await self._session.coordinator(group_id), GROUP_CHANNEL)
        membership = self._membership()
        group = wire_fetch.OffsetFetchRequestGroup(
            group_id=group_id,
            topics=[wire_fetch.OffsetFetchRequestTopics(name=name, partition_indexes=topics[name]) for name in topics],
        )
        if membership is not None and membership.member_id and membership.generation >= 0:
            group.member_id, group.member_epoch = membership.member_id, membership.generation
        request = wire_fetch.OffsetFetchRequest(
            group_id=group_id,
            topics=[wire_fetch.OffsetFetchRequestTopic(name=name, partition_indexes=topics[name]) for name in topics],
            groups=[group],
            require_stable=True,
        )
        version = link.version_for(request, _BY_NAME_MAX)
        response = await link.call(request, wire_fetch.OffsetFetchResponse, at_most=_BY_NAME_MAX)
        answer: Any = response.groups[0] if version >= _GROUPS_SINCE else response
        return _read(group_id, answer)


def _read(group_id: str, answer: Any) -> dict[TopicPartition, OffsetAndMetadata]:
    if answer.error_code:
        raise error_for(answer.error_code, f"group {group_id!r}")
    found = {}
    for topic in answer.topics:
        for each in topic.partitions:
            if each.error_code:
                raise error_for(each.error_code, f"{topic.name}-{each.partition_index}")
            if each.committed_offset != _NO_OFFSET:
                found[TopicPartition(topic.name, each.partition_index)] = OffsetAndMetadata(
                    each.committed_offset, each.metadata or "", each.committed_leader_epoch
                )
    return found


def _reason(code: ErrorCode) -> str:
    if code in _OF_THE_MEMBERSHIP:
        return "the group has rebalanced, so the partitions may be another member's now; poll() joins again"
    return "the offsets were not committed"
