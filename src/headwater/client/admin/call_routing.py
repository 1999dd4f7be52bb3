"""Where an admin call goes, and for how long it is tried: any broker, the controller, one broker, every broker.

What fails for a while is asked again, with growing pauses, until `default.api.timeout.ms` is over. A cluster that was
never reached is the exception: that is most likely a wrong address, and is said at once. No state.
"""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, Final, TypeVar

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.errors import BootstrapFailed, ConnectionFailed, RequestTimedOut, error_for
from headwater.client.reactor.link import Link
from headwater.client.session import KeyType, Session
from headwater.client.types import Topic
from headwater.wire.schema import Message

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R", bound=Message)

LeaderAsk = Callable[[Link, list[TopicPartition]], Awaitable[Mapping[TopicPartition, V | KafkaError]]]

_AT_ONCE: Final = 50  # requests side by side, so that a call about thousands of things has a bound
_PASSING: Final = frozenset(
    (ErrorCode.NOT_CONTROLLER, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
)


async def of_any(
    session: Session, request: Message, response_type: type[R], codes: Callable[[R], Iterable[int]] = lambda _: ()
) -> R:
    """Whoever answers. Asked again while one of the response's `codes` says that it is only for now."""
    return await _patiently(session, lambda: session.call_any(request, response_type), codes)


async def of_controller(
    session: Session, request: Message, response_type: type[R], codes: Callable[[R], Iterable[int]]
) -> R:
    """The broker that the metadata names as controller; looked up anew for each attempt."""

    async def once() -> R:
        await session.refresh()
        if session.view.controller_id in session.view.brokers:
            return await session.call(session.view.controller_id, request, response_type)
        return await session.call_any(request, response_type)

    return await _patiently(session, once, codes)


async def of_broker(
    session: Session,
    broker_id: int,
    request: Message,
    response_type: type[R],
    codes: Callable[[R], Iterable[int]] = lambda _: (),
) -> R:
    """BROKER_NOT_AVAILABLE if the cluster has no broker of this number."""
    await introduce(session)
    return await _patiently(session, lambda: session.call(broker_id, request, response_type), codes)


async def of_coordinator(
    session: Session,
    key: str,
    key_type: KeyType,
    request: Message,
    response_type: type[R],
    code_of: Callable[[R], int],
    *,
    at_most: int | None = None,
) -> R:
    await introduce(session)
    return await session.call_coordinator(key, key_type, request, response_type, code_of, at_most=at_most)


async def of_leaders(
    session: Session, partitions: Iterable[TopicPartition], ask: LeaderAsk[V]
) -> dict[TopicPartition, V | KafkaError]:
    """What the leaders say about each partition, or a final error, in the order given."""
    wanted = list(partitions)
    return await _patiently(session, lambda: session.per_leader(wanted, ask), lambda _: ())


async def metadata(session: Session, topics: Iterable[str] | None) -> list[Topic]:
    """Of these topics, or of all (None)."""
    wanted = None if topics is None else list(topics)
    return await _patiently(session, lambda: session.refresh(wanted), lambda _: ())


async def one_topic(session: Session, name: str, *, auto_create: bool = False) -> Topic:
    return await _patiently(session, lambda: session.topic(name, auto_create=auto_create), lambda _: ())


async def every_broker(session: Session) -> list[int]:
    """The ids of all brokers, as of now."""
    await metadata(session, ())
    return sorted(session.view.brokers)


async def introduce(session: Session) -> None:
    """Makes sure that some broker answers at all, before anything waits for a particular one."""
    if not session.view.brokers:
        await session.refresh()


async def each_of(
    session: Session, keys: Iterable[K], one: Callable[[K], Coroutine[Any, Any, V]]
) -> dict[K, V | KafkaError]:
    """`one` of each key, side by side; what it gave or which `KafkaError` it raised, in the order of the keys."""
    todo = list(dict.fromkeys(keys))
    outcome: dict[K, V | KafkaError] = {}
    for at in range(0, len(todo), _AT_ONCE):
        chunk = todo[at : at + _AT_ONCE]
        answers = await session.kernel.all_of([one(key) for key in chunk])
        for key, answer in zip(chunk, answers, strict=True):
            if isinstance(answer, BaseException) and not isinstance(answer, KafkaError):
                raise answer
            outcome[key] = answer
    return outcome


async def _patiently(session: Session, once: Callable[[], Awaitable[V]], codes: Callable[[V], Iterable[int]]) -> V:
    """When the time is up, the last answer is given as it is; a connection that failed is raised."""
    was_reached = bool(session.view.brokers)
    deadline = session.deadline()
    attempt = 0
    while True:
        try:
            answer = await once()
        except (ConnectionFailed, RequestTimedOut, BootstrapFailed):
            if not was_reached or not await session.pause(attempt, deadline):
                raise
        else:
            if _PASSING.isdisjoint(codes(answer)) or not await session.pause(attempt, deadline):
                return answer
        attempt += 1


def failure(code: int, message: str | None = None) -> KafkaError | None:
    """A code from a response as an outcome: None when all went well."""
    return error_for(code, message) if code else None


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The numbers of each topic's partitions, as requests have them."""
    grouped: dict[str, list[int]] = {}
    for each in partitions:
        grouped.setdefault(each.topic, []).append(each.partition)
    return grouped
