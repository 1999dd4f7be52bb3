"""How far a persistent query has come: what its group has committed of each partition, beside what the log has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.base.errors import KafkaError
from headwater.client.types import EARLIEST, LATEST

if TYPE_CHECKING:
    from headwater.client import AsyncAdmin


async def progress_of(admin: AsyncAdmin, group: str) -> dict[str, Any]:
    """As ksqlDB's DESCRIBE EXTENDED tells it: topics, and of each partition where it begins, ends, and was read to.
    Nothing is known of a group that has not committed yet.
    """
    try:
        committed = await admin.list_group_offsets(group)
    except KafkaError:
        committed = {}
    begins = await admin.list_offsets(dict.fromkeys(committed, EARLIEST)) if committed else {}
    ends = await admin.list_offsets(dict.fromkeys(committed, LATEST)) if committed else {}
    topics: dict[str, list[dict[str, int]]] = {}
    for place in sorted(committed):
        begin, end = begins.get(place), ends.get(place)
        if begin is None or end is None or isinstance(begin, KafkaError) or isinstance(end, KafkaError):
            continue  # the topic has gone meanwhile
        offsets = {
            "partition": place.partition,
            "logStartOffset": begin.offset,
            "logEndOffset": end.offset,
            "consumerOffset": committed[place].offset,
        }
        topics.setdefault(place.topic, []).append(offsets)
    shown = [{"kafkaTopic": name, "offsets": offsets} for name, offsets in topics.items()]
    return {"groupId": group, "topicSummaries": shown}
