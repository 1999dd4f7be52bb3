"""The writes of single changes, with the guards under which they may happen, and what leaders propose."""

from collections.abc import Sequence
from typing import Final

from headwater.base.coordination import Check, Create, Delete, SetData, Write
from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import NO_BROKER, BrokerId, LeaderEpoch
from headwater.metadata.cluster import layout
from headwater.metadata.cluster.changes import Announced, encode_entry
from headwater.metadata.image import (
    ClusterImage,
    PartitionChanged,
    PartitionState,
)

WRITES_MAX: Final = 500  # in one step


def entry(changes: Sequence[Announced]) -> Create:
    return log_entry(encode_entry(changes))


def log_entry(data: bytes) -> Create:
    return Create(f"{layout.CHANGES}/{layout.CHANGE_PREFIX}", data, sequential=True)


def proposal(changes: Sequence[PartitionChanged], image: ClusterImage) -> list[Write]:
    """From leaders. The topics must be in the image."""
    topics = {change.topic_id: image.topics[change.topic_id] for change in changes}
    writes: list[Write] = [Check(layout.topic_id_path(topic_id), 0) for topic_id in topics]
    writes += [state_write(topics[change.topic_id].name, change, image.controller_epoch) for change in changes]
    writes.append(entry([written(change) for change in changes]))
    return writes


def new_partition(replicas: Sequence[int], image: ClusterImage) -> PartitionState:
    """The first that lives leads, and all that live are in sync: there is nothing yet that one could lack."""
    ids = [BrokerId(replica) for replica in replicas]
    live = [replica for replica in ids if replica in image.brokers]
    in_sync = [replica for replica in live if not image.brokers[replica].is_stopping] or live or ids[:1]
    return PartitionState(
        leader=in_sync[0] if live else NO_BROKER,
        leader_epoch=LeaderEpoch(0),
        replicas=ids,
        in_sync_replicas=in_sync,
        in_sync_epochs=[image.brokers[replica].epoch if live else -1 for replica in in_sync],
        version=0,
    )


def _state_of(change: PartitionChanged) -> PartitionState:
    return PartitionState(
        change.leader,
        change.leader_epoch,
        list(change.replicas),
        list(change.in_sync_replicas),
        list(change.in_sync_epochs),
    )


def state_write(name: str, change: PartitionChanged, controller_epoch: int) -> SetData:
    if change.version < 0:
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, "The state of the partition is not known.")
    data = layout.encode_state(_state_of(change), controller_epoch)
    return SetData(layout.state_path(name, change.partition), data, change.version)


def written(change: PartitionChanged) -> PartitionChanged:
    """As it is once it has been written over the version from which it was decided."""
    return PartitionChanged(
        change.topic_id,
        change.partition,
        change.leader,
        change.leader_epoch,
        change.replicas,
        change.in_sync_replicas,
        change.in_sync_epochs,
        change.adding,
        change.removing,
        change.version + 1,
    )


def removal(name: str, partitions: Sequence[int]) -> list[Write]:
    """Of the nodes of some of a topic's partitions."""
    return [
        Delete(path)
        for number in partitions
        for path in (layout.state_path(name, number), layout.partition_path(name, number))
    ]
