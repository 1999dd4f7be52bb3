"""What a guard says of a request: nothing (it may go on as it is), that it is refused, or what is to be added to its
answer.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headwater.base.errors import ErrorCode, KafkaError
from headwater.broker.rights.authorizer import Caller

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


class Refused(NamedTuple):
    """The handler is not asked: this is the answer."""

    response: Any


class Narrowed(NamedTuple):
    """The request was cut down to what is allowed. `complete` adds to the handler's answer what was refused, or takes
    away what is not to be seen.
    """

    complete: Callable[[Any], Any]


Outcome = Refused | Narrowed | None
Guard = Callable[["Broker", Caller, Any, int], Outcome]
"""Takes the broker, who asks, the request (which it may cut down) and its version."""

TOPIC_DENIED: Final = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
GROUP_DENIED: Final = int(ErrorCode.GROUP_AUTHORIZATION_FAILED)
CLUSTER_DENIED: Final = int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
TRANSACTION_DENIED: Final = int(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


def divide(items: Iterable[Any], is_allowed: Callable[[Any], bool]) -> tuple[list[Any], list[Any]]:
    """Those that are allowed, and the others."""
    allowed: list[Any] = []
    denied: list[Any] = []
    for item in items:
        (allowed if is_allowed(item) else denied).append(item)
    return allowed, denied


def denial(code: int) -> KafkaError:
    return KafkaError(ErrorCode(code))


def open_to_all(_broker: "Broker", _caller: Caller, _request: Any, _version: int) -> Outcome:
    return None
