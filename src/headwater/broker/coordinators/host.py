"""What a coordinator needs of the broker that hosts it. `Broker` is the one that there is; tests may bring less. No
state.

Coordinators reach nothing else of a broker, and no handler.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from headwater.base.config.broker import BrokerConfig
from headwater.base.errors import KafkaError
from headwater.base.ids import BrokerId, PartitionKey
from headwater.base.peers import Peers
from headwater.base.ports import Clock, Random, Scheduler
from headwater.metadata.image import ClusterImage, MetadataStore
from headwater.replication.partition import Partition

if TYPE_CHECKING:
    from headwater.broker.coordinators.group_coordinator import GroupCoordinator
    from headwater.broker.coordinators.transaction_coordinator import TransactionCoordinator
    from headwater.broker.producer_ids import ProducerIds
    from headwater.broker.quick_writes import QuickWrites


class CoordinatorHost(Protocol):
    broker_id: BrokerId
    config: BrokerConfig
    image: ClusterImage
    store: MetadataStore
    clock: Clock
    random: Random
    scheduler: Scheduler
    peers: Peers | None  # None for a broker that stands alone
    partitions: dict[PartitionKey, Partition]
    producer_ids: "ProducerIds"
    quick_writes: "QuickWrites | None"
    now_ms: Callable[[], int]

    @property
    def groups(self) -> "GroupCoordinator": ...

    @property
    def transactions(self) -> "TransactionCoordinator": ...

    def partition(self, topic: str, index: int) -> Partition:
        """One that this broker leads; raises NOT_LEADER_OR_FOLLOWER and others."""
        ...

    def wake(self, parked: Any) -> None:
        """Notes that something which waits is due: `answer` is called when the events of this turn are handled."""
        ...

    def ensure_topic(
        self,
        name: str,
        partition_count: int,
        replication_factor: int,
        config: Mapping[str, str],
        done: Callable[[KafkaError | None], None],
    ) -> None:
        """Makes an internal topic unless it is there."""
        ...
