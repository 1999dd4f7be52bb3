"""The connection of a driver to the cluster, with patience: what fails for a while, a broker that is gone for a minute
included, is waited for."""

import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, TypeVar

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.admin import Admin
from headwater.client.admin.committed import alter_group_offsets
from headwater.client.errors import BootstrapFailed
from headwater.client.reactor.kernel import TimedOut
from headwater.client.session import Session
from headwater.spark.client_options import shared_settings

T = TypeVar("T")

PATIENCE_MS: Final = 180_000
TELL_S: Final = 5.0  # for a group: a batch may wait for it


def open_admin(bootstrap_servers: str, client: Mapping[str, str], patience_ms: int = PATIENCE_MS) -> Admin:
    ours = {"bootstrap.servers": bootstrap_servers, "default.api.timeout.ms": patience_ms}
    return Admin({"client.id": "headwater-spark", **shared_settings(client), **ours})


def commit_group_offsets(admin: Admin, group: str, ends: Mapping[TopicPartition, int]) -> bool:
    return admin.run(lambda session: tell_group(session, group, ends))


async def tell_group(session: Session, group: str, ends: Mapping[TopicPartition, int]) -> bool:
    """Commits them, so that lag shows in every tool. The offsets that count are Spark's: what fails only warns. Whether
    anything was told.
    """
    telling = session.kernel.spawn(alter_group_offsets(session, group, ends))
    try:
        answers = await session.kernel.within(TELL_S, telling)
    except (KafkaError, TimedOut) as error:
        why = f"no answer within {TELL_S:g} s" if isinstance(error, TimedOut) else str(error)
        sys.stderr.write(f"headwater source: the offsets of group {group!r} were not committed: {why}\n")
        return False
    finally:
        telling.cancel()
    for partition, problem in answers.items():
        if problem is not None:
            sys.stderr.write(f"headwater source: group {group!r}: {partition} was not committed: {problem}\n")
    return True


def with_retries(admin: Admin, call: Callable[[], T]) -> T:
    """Nobody reachable now may be someone reachable in a while."""
    deadline = admin.session.deadline()
    attempt = 0

    def pause(session: Session) -> Coroutine[Any, Any, bool]:
        return session.pause(attempt, deadline)

    while True:
        try:
            return call()
        except KafkaError as error:
            passing = isinstance(error, BootstrapFailed) or error.code == ErrorCode.LEADER_NOT_AVAILABLE
            if not passing or not admin.run(pause):
                raise
            attempt += 1
