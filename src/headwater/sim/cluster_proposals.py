"""Which partitions a broker has asked ZooKeeper to change without having heard what became of it.

Until then what ZooKeeper has is not what counts: a leader that has just proposed to be alone in sync is as good as
alone. A proposal whose connection ended may still arrive, for as long as a message takes. Owned by a node.
"""

from collections import Counter
from collections.abc import Callable

from headwater.base.errors import KafkaError
from headwater.base.ids import PartitionKey
from headwater.metadata.image import MetadataStore, PartitionChanged


class Proposals:
    def __init__(self, now_ms: Callable[[], int], delay_ms_max: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._delay_ms_max = delay_ms_max
        self._unanswered: Counter[PartitionKey] = Counter()
        self._may_arrive_until_ms: dict[PartitionKey, int] = {}

    def watch(self, store: MetadataStore) -> None:
        """All that this process will propose."""
        propose = store.propose

        def watched(change: PartitionChanged, done: Callable[[KafkaError | None], None]) -> None:
            key = PartitionKey(change.topic_id, change.partition)
            unanswered = self._unanswered  # of this process

            def answered(problem: KafkaError | None) -> None:
                unanswered[key] -= 1
                if problem is not None:
                    self._may_still_arrive(key)
                done(problem)

            unanswered[key] += 1
            propose(change, answered)

        store.propose = watched  # type: ignore[method-assign]

    def process_ended(self) -> None:
        for key, count in self._unanswered.items():
            if count > 0:
                self._may_still_arrive(key)
        self._unanswered = Counter()

    def _may_still_arrive(self, key: PartitionKey) -> None:
        self._may_arrive_until_ms[key] = self._now_ms() + self._delay_ms_max()

    def is_under_way(self, key: PartitionKey) -> bool:
        return self._unanswered[key] > 0 or self._now_ms() <= self._may_arrive_until_ms.get(key, -1)
