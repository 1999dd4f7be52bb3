"""A cluster whose logs lose something by design: retention and DeleteRecords at their beginning, unclean elections at
their end.

Consumers read from followers too. Everything else is as in `cluster.py`; what may be told of such topics is in
`cluster_history.py`.
"""

from headwater.sim.clients.client import SimClient
from headwater.sim.cluster import ClusterWorld, TopicToMake
from headwater.sim.cluster_clients.producing import ClusterIdempotentProducer, ClusterPlainProducer
from headwater.sim.cluster_clients.reading import FollowerConsumer
from headwater.sim.cluster_clients.trimming import TrimmingAdmin


class ClusterStorageWorld(ClusterWorld):
    command = "make sim WORLD=cluster-storage"

    def cast(self) -> list[SimClient]:
        return [
            TrimmingAdmin(self, "admin"),
            ClusterIdempotentProducer(self, "first"),
            ClusterIdempotentProducer(self, "second"),
            ClusterPlainProducer(self, "plain"),
            FollowerConsumer(self, "reader"),
            FollowerConsumer(self, "other"),
        ]

    def topics_to_make(self) -> list[TopicToMake]:
        return [
            ("trimmed-safe", 3, {"min.insync.replicas": "2"}),
            ("trimmed-brief", 2, {"retention.bytes": "1500", "segment.ms": "200"}),
            ("lossy", 2, {"unclean.leader.election.enable": "true"}),
            ("trimmed-wide", 2, {"segment.ms": "400"}),
            ("compacted", 3, {"cleanup.policy": "compact", "segment.ms": "300", "min.cleanable.dirty.ratio": "0.01"}),
        ]

    def properties(self) -> dict[str, str]:
        return {**super().properties(), "log.retention.check.interval.ms": "500"}
