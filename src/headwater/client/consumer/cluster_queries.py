"""What a consumer can be asked about topics and offsets, with or without an assignment. No state of its own."""

from collections.abc import Iterable, Mapping
from typing import Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.lookups import list_offsets
from headwater.client.consumer.positions import EARLIEST, LATEST
from headwater.client.errors import UnknownTopic
from headwater.client.reactor.kernel import TimedOut
from headwater.client.session import Session
from headwater.client.types import OffsetAt, Topic

_NAMED_MAX: Final = 5


class ClusterQueries:
    def __init__(self, session: Session, isolation_level: int, auto_create: bool) -> None:
        self._session = session
        self._isolation_level = isolation_level
        self._auto_create = auto_create

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int], timeout_ms: int | None
    ) -> dict[TopicPartition, OffsetAt | None]:
        found = await self._list_offsets(times, timeout_ms)
        return {each: answer if answer.offset >= 0 else None for each, answer in found.items()}

    async def ends(
        self,
        partitions: Iterable[TopicPartition],
        timeout_ms: int | None,
        *,
        earliest: bool,
        isolation_level: int | None = None,
    ) -> dict[TopicPartition, int]:
        """`isolation_level`: the consumer's own, if nothing is said."""
        times = {TopicPartition(*each): EARLIEST if earliest else LATEST for each in partitions}
        found = await self._list_offsets(times, timeout_ms, isolation_level)
        return {each: answer.offset for each, answer in found.items()}

    async def _list_offsets(
        self, times: Mapping[TopicPartition, int], timeout_ms: int | None, isolation_level: int | None = None
    ) -> dict[TopicPartition, OffsetAt]:
        session = self._session
        limit_ms = session.settings.api_timeout_ms if timeout_ms is None else timeout_ms
        level = self._isolation_level if isolation_level is None else isolation_level
        asking = session.kernel.spawn(list_offsets(session, times, level, timeout_ms=limit_ms))
        try:
            answers = await session.kernel.within(limit_ms / 1000, asking)
        except TimedOut:  # an attempt by itself may take as long as a request
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT, f"no answer about offsets of {_told(times)} within {limit_ms} ms"
            ) from None
        finally:
            asking.cancel()
        found: dict[TopicPartition, OffsetAt] = {}
        for each, answer in answers.items():
            if isinstance(answer, KafkaError):
                raise answer
            found[each] = answer
        return found

    async def partitions_for(self, name: str, timeout_ms: int | None) -> Topic | None:
        try:
            return await self._session.topic(name, auto_create=self._auto_create, timeout_ms=timeout_ms)
        except UnknownTopic:
            return None

    async def list_topics(self) -> list[Topic]:
        return await self._session.refresh(None)


def _told(partitions: Iterable[TopicPartition]) -> str:
    named = sorted(str(each) for each in partitions)
    return ", ".join(named[:_NAMED_MAX]) + (f" and {len(named) - _NAMED_MAX} more" if len(named) > _NAMED_MAX else "")
