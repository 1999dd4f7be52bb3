"""What a request needs, and who sends it: rights of Kafka's resources decide what a caller may do at an HTTP door.

A door says what a request needs (`Need`), and its caller is asked. Where a door has no login, everybody may do
everything (`EVERYBODY`). A refusal names what is missing and nothing of what exists: a resource that one may not see is
refused by name whether it is there or not.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol

from headwater.base.acls import CLUSTER_NAME, Operation, ResourceType


class Need(NamedTuple):
    operation: Operation
    resource: ResourceType
    name: str

    def __str__(self) -> str:
        return f"{self.operation.name} on {self.resource.name} {self.name!r}"


def topic(operation: Operation, name: str) -> Need:
    return Need(operation, ResourceType.TOPIC, name)


def group(operation: Operation, name: str) -> Need:
    return Need(operation, ResourceType.GROUP, name)


def cluster(operation: Operation) -> Need:
    return Need(operation, ResourceType.CLUSTER, CLUSTER_NAME)


class Caller(Protocol):
    @property
    def name(self) -> str:
        """For logs; empty where nobody logs in."""

    @property
    def may_everything(self) -> bool:
        """Nobody needs to be asked."""

    async def allowed(self, needs: Iterable[Need]) -> frozenset[Need]:
        """Those that the caller has. Raises HttpError where it cannot be known."""


class _Everybody:
    name = ""
    may_everything = True

    async def allowed(self, needs: Iterable[Need]) -> frozenset[Need]:
        return frozenset(needs)

    def __repr__(self) -> str:
        return "EVERYBODY"


EVERYBODY: Final = _Everybody()
