"""What a consumer can be asked about topics and offsets, with or without an assignment. No state of its own."""

from collections.abc import Iterable, Mapping

from headwater.base.errors import KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.lookups import list_offsets
from headwater.client.consumer.positions import EARLIEST, LATEST
from headwater.client.errors import UnknownTopic
from headwater.client.session import Session
from headwater.client.types import OffsetAt, Topic


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
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None, *, earliest: bool
    ) -> dict[TopicPartition, int]:
        times = {TopicPartition(*each): EARLIEST if earliest else LATEST for each in partitions}
        return {each: answer.offset for each, answer in (await self._list_offsets(times, timeout_ms)).items()}

    async def _list_offsets(
        self, times: Mapping[TopicPartition, int], timeout_ms: int | None
    ) -> dict[TopicPartition, OffsetAt]:
        answers = await list_offsets(self._session, times, self._isolation_level, timeout_ms=timeout_ms)
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
