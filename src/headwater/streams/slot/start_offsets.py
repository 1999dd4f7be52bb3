"""Where the inputs of a task are read from: the offset that was committed, or else the beginning or the end of the
partition.
"""

import time
from collections.abc import Iterable
from typing import Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.admin.committed import Committed
from headwater.client.types import EARLIEST, LATEST
from headwater.streams.slot.open_task import Clients
from headwater.streams.topology.topology import SourceNode, SubTopology

_PATIENCE_S: Final = 600.0
_PAUSE_S: Final = 0.02


class StartOffsets:
    """Of one application. No state but what its plan says of each topic."""

    def __init__(self, clients: Clients, application_id: str, plans: Iterable[SubTopology]) -> None:
        self._clients = clients
        self._application_id = application_id
        self._resets = {
            t: node.reset for sub in plans for node in sub.nodes if isinstance(node, SourceNode) for t in node.topics
        }

    def of(self, inputs: list[TopicPartition], *, stable: bool) -> dict[TopicPartition, tuple[int, str]]:
        """With the metadata that was committed. `stable`: not before transactions that commit some have ended."""
        found = self._committed(inputs, stable)
        offsets = {each: (found[each].offset, found[each].metadata) for each in inputs if each in found}
        missing = {each: self._reset(each.topic) for each in inputs if each not in offsets}
        for partition, answer in (self._clients.admin.list_offsets(missing) if missing else {}).items():
            if isinstance(answer, KafkaError):
                raise answer
            offsets[partition] = (answer.offset, "")
        return offsets

    def _committed(self, inputs: list[TopicPartition], stable: bool) -> dict[TopicPartition, Committed]:
        """Waits for offsets that are being decided."""
        give_up_at = time.monotonic() + _PATIENCE_S
        while True:
            try:
                return self._clients.admin.list_group_offsets(self._application_id, inputs, require_stable=stable)
            except KafkaError as error:
                if error.code != ErrorCode.UNSTABLE_OFFSET_COMMIT or time.monotonic() > give_up_at:
                    raise
                self._clients.stopping.wait(_PAUSE_S)
                self._clients.check()

    def _reset(self, topic: str) -> int:
        """Where an input begins that has no offset yet: Kafka Streams' default is its first record."""
        return LATEST if self._resets.get(topic) == "latest" else EARLIEST
