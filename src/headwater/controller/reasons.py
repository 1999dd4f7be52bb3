"""Why the controller changes the state of a partition, in words: for its log, and for the story of a simulated cluster.
Pure.
"""

from headwater.base.ids import NO_BROKER, BrokerId
from headwater.controller.elections import Brokers, counts, in_sync_epochs, is_empty
from headwater.metadata.image import PartitionChanged, PartitionState


def reason(before: PartitionState, change: PartitionChanged, brokers: Brokers, *, is_unclean: bool = False) -> str:
    said: list[str] = []
    if is_unclean:
        said.append(f"{change.leader} was not in sync, and the topic allows it to lead")
    for replica in before.in_sync_replicas:
        if replica not in change.in_sync_replicas or replica == before.leader != change.leader:
            said.append(_standing(replica, before, change, brokers))
    if change.leader == NO_BROKER:
        said.append("nobody who is in sync can lead")
    elif change.leader != before.leader and change.leader == change.replicas[0]:
        said.append(f"{change.leader} is the preferred leader")
    if tuple(before.replicas) != change.replicas:
        said.append(f"replicas were {before.replicas}")
    return "; ".join(said) or "in-sync replicas live under other epochs"


def _standing(replica: BrokerId, before: PartitionState, change: PartitionChanged, brokers: Brokers) -> str:
    broker = brokers.get(replica)
    epoch = in_sync_epochs(before)[replica]
    if broker is None:
        return f"{replica} is gone"
    if is_empty(broker, epoch):
        return f"{replica} came back without its data"
    if not counts(broker, epoch):
        return f"{replica} came back after a crash"
    if broker.is_stopping:
        return f"{replica} is stopping, or refuses connections"
    if replica not in change.replicas:
        return f"{replica} is no replica any more"
    return f"{replica} is well"
