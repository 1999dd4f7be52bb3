"""Requests about a group or a transactional id go to its coordinator: found by its key, asked again while it moves or loads.

No state: a coordinator is looked for at each call, because admin calls are rare and a stale address costs more than a lookup.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Final, TypeVar

from headwater.base.errors import ErrorCode, KafkaError
from headwater.client.cluster import Cluster
from headwater.client.connection import Connection
from headwater.client.errors import ConnectionFailed, RequestTimedOut, error_for
from headwater.client.types import Broker
from headwater.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

T = TypeVar("T")

_MOVING: Final = frozenset(
    (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
)


class KeyType(IntEnum):
    GROUP = 0
    TRANSACTION = 1


def find_coordinator(cluster: Cluster, key: str, key_type: KeyType = KeyType.GROUP) -> Broker:
    """The broker that answers for this key. An internal topic that is still being made is waited for."""
    request = FindCoordinatorRequest(key=key, key_type=int(key_type), coordinator_keys=[key])
    deadline = cluster.deadline()
    attempt = 0
    while True:
        response = cluster.call_any(request, FindCoordinatorResponse)
        found = response.coordinators[0] if response.coordinators else response  # before v4 there is one only
        if not found.error_code:
            known = cluster.view.brokers.get(found.node_id)
            return Broker(found.node_id, found.host, found.port, known.rack if known else None)
        problem = error_for(found.error_code, found.error_message)
        if not problem.code.retriable or not cluster.pause(attempt, deadline):
            raise problem
        attempt += 1


def ask_coordinator(
    cluster: Cluster,
    key: str,
    key_type: KeyType,
    ask: Callable[[Connection], T],
    code_of: Callable[[T], int],
) -> T:
    """What `ask` gets from the coordinator of `key`; again, of whoever it is then, while `code_of` says that it moves."""
    deadline = cluster.deadline()
    attempt = 0
    while True:
        try:
            coordinator = find_coordinator(cluster, key, key_type)
            cluster.view.brokers.setdefault(coordinator.id, coordinator)
            answer = ask(cluster.broker(coordinator.id))
            code = code_of(answer)
            if code not in _MOVING:
                return answer
            problem: KafkaError = error_for(code, f"the coordinator of {key!r} is not ready")
        except (ConnectionFailed, RequestTimedOut) as error:
            problem = error
        if not cluster.pause(attempt, deadline):
            raise problem
        attempt += 1
