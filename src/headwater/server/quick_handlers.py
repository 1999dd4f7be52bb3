"""The table of quick handlers, by API key: what `Connection._dispatch` asks before it takes the general way.

A quick handler works on the bytes of a frame. It answers with the whole frame of the answer: bytes (none for a produce
with acks=0), or chunks with file slices. Or it declines with None, before it has changed anything; then the general way
(`dispatch.py`) decodes the request and means the same. Code of groups and transactions is read with the first request
that needs it, not at start-up: the first handler of those APIs puts the real one in its place.

State: the table itself, which only fills.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from headwater.broker.rights.authorizer import Caller
from headwater.broker.rights.connection_rights import FOR_EVER_NS, ConnectionRights
from headwater.server import hot_fetch, hot_path

if TYPE_CHECKING:
    from headwater.broker.broker import Broker
    from headwater.broker.context import ConnectionContext

PRODUCE: Final = 0
FETCH: Final = 1
OFFSET_COMMIT: Final = 8
ADD_PARTITIONS_TO_TXN: Final = 24
END_TXN: Final = 26

QuickHandler = Callable[["Broker", memoryview, int, int, int, int], bytes | list[Any] | None]
"""Takes the broker, the buffer, where the frame goes on behind the correlation id,
where it ends, API version, correlation id.
"""


def _first_commit(
    broker: "Broker", frame: memoryview, at: int, end: int, version: int, correlation_id: int
) -> bytes | None:
    QUICK[OFFSET_COMMIT] = handle = hot_path.commit_frames().handle_frame
    return handle(broker, frame, at, end, version, correlation_id)


def _first_of_a_transaction(key: int) -> QuickHandler:
    def first(
        broker: "Broker", frame: memoryview, at: int, end: int, version: int, correlation_id: int
    ) -> bytes | list[Any] | None:
        QUICK.update(hot_path.transaction_frames())
        return QUICK[key](broker, frame, at, end, version, correlation_id)

    return first


QUICK: Final[dict[int, QuickHandler]] = {
    PRODUCE: hot_path.handle_frame,
    FETCH: hot_fetch.handle_frame,
    OFFSET_COMMIT: _first_commit,
    ADD_PARTITIONS_TO_TXN: _first_of_a_transaction(ADD_PARTITIONS_TO_TXN),
    END_TXN: _first_of_a_transaction(END_TXN),
}


def quick_handlers_for(
    broker: "Broker", connection: "ConnectionContext", session_ends_ns: int = FOR_EVER_NS
) -> dict[int, QuickHandler]:
    """Quick handlers ask nobody whether the sender may. Where an authorizer does, all of them are for super users only;
    of others, a connection remembers what it may, and Produce and Fetch compare that. OffsetCommit, which names its
    group and its topic, asks the authorizer, who remembers what he has said.
    """
    authorizer = broker.authorizer
    if authorizer is None or connection.principal in authorizer.super_users:
        connection.rights = None
        handlers = QUICK
    else:
        connection.rights = ConnectionRights(broker, session_ends_ns)
        handlers = _by_rights(connection.rights, Caller(authorizer, connection))
    quotas = broker.quotas
    if quotas is None or not quotas.concerns_clients:
        connection.meter = None
        return handlers
    from headwater.broker.quotas.meter import Meter  # not where there are no quotas
    from headwater.server.metered_handlers import metered

    connection.meter = Meter(quotas, connection.principal)
    return metered(handlers, connection.meter)


def _by_rights(rights: ConnectionRights, caller: Caller) -> dict[int, QuickHandler]:
    from headwater.broker.rights import groups  # not where nobody asks for rights

    def produce(
        _broker: "Broker", frame: memoryview, at: int, end: int, version: int, correlation_id: int
    ) -> bytes | None:
        return hot_path.handle_frame(rights, frame, at, end, version, correlation_id)

    def fetch(
        _broker: "Broker", frame: memoryview, at: int, end: int, version: int, correlation_id: int
    ) -> list[Any] | None:
        return hot_fetch.handle_frame(rights, frame, at, end, version, correlation_id)

    def may_commit(group_id: str, topic: str | bytes) -> bool:
        return rights.is_in_session() and groups.may_commit(rights.broker, caller, group_id, topic)

    def commit(
        broker: "Broker", frame: memoryview, at: int, end: int, version: int, correlation_id: int
    ) -> bytes | None:
        frames = hot_path.commit_frames()
        return frames.handle_frame_of(may_commit, broker, frame, at, end, version, correlation_id)

    return {PRODUCE: produce, FETCH: fetch, OFFSET_COMMIT: commit}
