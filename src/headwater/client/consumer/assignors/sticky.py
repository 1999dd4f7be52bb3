"""The sticky assignors: `sticky` for eager rebalances, `cooperative-sticky` for those in which members go on working.

A member of `sticky` has given everything up when it joins, so it tells in its user data what it had:

    [previous: string topic, [int32] partitions], int32 generation (missing in the oldest form)

A member of `cooperative-sticky` tells what it owns in its subscription, and the generation there too (version 2 and
later) or in its user data: int32 generation. User data that cannot be read counts as none.
"""

from collections.abc import Mapping, Sequence

from headwater.base.errors import KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.assignors.balance import Claim, assign_sticky
from headwater.client.consumer.assignors.formats import Reader, encode_int32, encode_partitions
from headwater.client.consumer.assignors.spec import NO_GENERATION, MemberSubscription


class StickyAssignor:
    name = "sticky"
    cooperative = False

    def user_data(
        self, topics: Sequence[str], previous: Sequence[TopicPartition], previous_generation: int
    ) -> bytes | None:
        del topics
        if previous_generation == NO_GENERATION:
            return None
        return encode_partitions(previous) + encode_int32(previous_generation)

    def assign(
        self, partition_counts: Mapping[str, int], members: Mapping[str, MemberSubscription]
    ) -> dict[str, list[TopicPartition]]:
        claims = {member_id: _claim(each.user_data) for member_id, each in members.items()}
        return assign_sticky(partition_counts, members, claims)


class CooperativeStickyAssignor:
    name = "cooperative-sticky"
    cooperative = True

    def user_data(
        self, topics: Sequence[str], previous: Sequence[TopicPartition], previous_generation: int
    ) -> bytes | None:
        del topics, previous
        return encode_int32(previous_generation)

    def assign(
        self, partition_counts: Mapping[str, int], members: Mapping[str, MemberSubscription]
    ) -> dict[str, list[TopicPartition]]:
        """What is still in somebody else's hands is given to nobody yet: its holder drops it and all join again."""
        claims = {member_id: Claim(each.owned, _generation(each)) for member_id, each in members.items()}
        holders: dict[TopicPartition, set[str]] = {}
        for member_id, claim in claims.items():
            for partition in claim.partitions:
                holders.setdefault(partition, set()).add(member_id)
        return {
            member_id: [each for each in partitions if member_id in holders.get(each, (member_id,))]
            for member_id, partitions in assign_sticky(partition_counts, members, claims).items()
        }


def _claim(user_data: bytes | None) -> Claim:
    if not user_data:
        return Claim((), NO_GENERATION)
    reader = Reader(user_data)
    try:
        return Claim(reader.partitions(), reader.int32() if reader.left_bytes else NO_GENERATION)
    except KafkaError:
        return Claim((), NO_GENERATION)


def _generation(subscription: MemberSubscription) -> int:
    data = subscription.user_data
    if subscription.generation != NO_GENERATION or not data:
        return subscription.generation
    if len(data) == 4:
        return int.from_bytes(data, "big", signed=True)
    return _claim(data).generation  # librdkafka before 2.0 writes what `sticky` writes
