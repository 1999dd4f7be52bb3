"""A group's partitions as rows: who holds them, what is committed, where the log ends, and how far behind that is."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from headwater.base.errors import KafkaError
from headwater.base.ids import TopicPartition

if TYPE_CHECKING:
    from headwater.client.admin import Admin
    from headwater.client.admin.groups import GroupDescription


class OffsetRow(NamedTuple):
    """`topic` is None for a member that holds nothing; a number is None where there is none."""

    topic: str | None
    partition: int | None
    leader_epoch: int | None
    current_offset: int | None
    log_end_offset: int | None
    member_id: str | None
    host: str | None
    client_id: str | None

    @property
    def lag(self) -> int | None:
        if self.current_offset is None or self.log_end_offset is None:
            return None
        return self.log_end_offset - self.current_offset


def offset_rows(admin: "Admin", description: "GroupDescription") -> list[OffsetRow]:
    """Partitions held by members, members without any, then partitions that only have an offset."""
    committed = admin.list_group_offsets(description.group_id)
    held = description.held_by()
    ends = log_end_offsets(admin, {*held, *committed})
    rows = []
    for partition in sorted({*held, *committed}):
        member = held.get(partition)
        found = committed.get(partition)
        rows.append(
            OffsetRow(
                partition.topic,
                partition.partition,
                found.leader_epoch if found and found.leader_epoch >= 0 else None,
                found.offset if found else None,
                ends.get(partition),
                member.member_id if member else None,
                member.host if member else None,
                member.client_id if member else None,
            )
        )
    rows += [
        OffsetRow(None, None, None, None, None, member.member_id, member.host, member.client_id)
        for member in description.members
        if not member.assignment
    ]
    return rows


def log_end_offsets(admin: "Admin", partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Of those partitions that are there: offsets outlive topics."""
    from headwater.client.types import LATEST

    wanted = list(partitions)
    if not wanted:
        return {}
    known = {topic.name: len(topic.partitions) for topic in admin.list_topics(internal=True)}
    there = [each for each in wanted if each.partition < known.get(each.topic, 0)]
    answers = admin.list_offsets(dict.fromkeys(there, LATEST))
    return {each: answer.offset for each, answer in answers.items() if not isinstance(answer, KafkaError)}


def parse_topic_partitions(admin: "Admin", specs: Iterable[str]) -> list[TopicPartition]:
    """`orders` for all of a topic's partitions, `orders:0,2` for two of them. Raises UnknownTopic and UserError."""
    from headwater.base.errors import UserError

    wanted: list[TopicPartition] = []
    for spec in specs:
        name, colon, indexes = spec.partition(":")
        topic = admin.describe_topic(name)
        if not colon:
            wanted += [TopicPartition(name, each.partition) for each in topic.partitions]
            continue
        try:
            chosen = [TopicPartition(name, int(index)) for index in indexes.split(",")]
        except ValueError:
            raise UserError(
                f"Cannot read the partitions of {spec!r}", "write them as topic:0,1,2 with numbers"
            ) from None
        missing = [str(each) for each in chosen if not 0 <= each.partition < len(topic.partitions)]
        if missing:
            raise UserError(f'The partitions "{",".join(missing)}" do not exist')
        wanted += chosen
    return list(dict.fromkeys(wanted))
