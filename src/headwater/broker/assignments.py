"""Replicas that a client assigned by hand, checked as Apache Kafka checks them."""

from collections.abc import Collection, Sequence

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import BrokerId
from headwater.controller.placement import check_replicas as check_replicas


def checked_new_topic(
    assignments: Sequence[tuple[int, Sequence[int]]], brokers: Collection[BrokerId]
) -> list[list[int]]:
    """Replicas by partition, from (partition, replicas) pairs in any order."""
    by_partition: dict[int, Sequence[int]] = {}
    for index, replicas in assignments:
        if index in by_partition:
            raise _refused(f"Found multiple manual partition assignments for partition {index}")
        check_replicas(replicas, brokers)
        by_partition[index] = replicas
    if sorted(by_partition) != list(range(len(by_partition))):
        raise _refused("partitions should be a consecutive 0-based integer sequence")
    ordered = [list(by_partition[index]) for index in range(len(by_partition))]
    check_same_factor(ordered, len(ordered[0]))
    return ordered


def check_same_factor(assignments: Sequence[Sequence[int]], factor: int) -> None:
    for replicas in assignments:
        if len(replicas) != factor:
            raise _refused(
                f"The manual partition assignment includes a partition with {len(replicas)} replica(s), "
                f"but this is not consistent with previous partitions, which have {factor} replica(s)."
            )


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
