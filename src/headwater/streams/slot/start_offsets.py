"""Where the inputs of a task are read from: the offset that was committed, or else what the source says, or the
application: the beginning or the end of the partition, or as it was a while ago.
"""

import time
from collections.abc import Iterable, Mapping
from typing import Final

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.base.ids import TopicPartition
from headwater.client.admin.committed import Committed
from headwater.client.consumer.resolving import ResetPolicy
from headwater.client.types import EARLIEST as FIRST
from headwater.client.types import LATEST, NO_OFFSET
from headwater.streams.plan.sources import EARLIEST
from headwater.streams.slot.open_task import Clients
from headwater.streams.topology.topology import SourceNode, SubTopology

_PATIENCE_S: Final = 600.0
_PAUSE_S: Final = 0.02


class StartOffsets:
    """Of one application. No state but what its plan says of each topic."""

    def __init__(
        self, clients: Clients, application_id: str, plans: Iterable[SubTopology], reset: str = EARLIEST
    ) -> None:
        self._clients = clients
        self._application_id = application_id
        self._resets: dict[str, str] = {}
        for sub in plans:
            for node in sub.nodes:
                for topic in node.topics if isinstance(node, SourceNode) else ():
                    assert isinstance(node, SourceNode)
                    if topic in sub.internal_names:  # what was written there before its reader came is not to be lost
                        self._resets[f"{application_id}-{topic}"] = EARLIEST
                    else:
                        self._resets[topic] = node.reset or reset

    @property
    def consumer_reset(self) -> str:
        """Of the consumer that reads on from there: to go on with the first record that is left is what it does by
        itself, and all else is decided here.
        """
        return "earliest" if all(each == EARLIEST for each in self._resets.values()) else "none"

    def of(self, inputs: list[TopicPartition], *, stable: bool) -> dict[TopicPartition, tuple[int, str]]:
        """With the metadata that was committed. `stable`: not before transactions that commit some have ended."""
        found = self._committed(inputs, stable)
        offsets = {each: (found[each].offset, found[each].metadata) for each in inputs if each in found}
        now_ms = int(time.time() * 1000)
        missing = {
            each: self._timestamp(each, now_ms, "has no committed offset") for each in inputs if each not in found
        }
        for each in self._gone(offsets):
            missing[each] = self._timestamp(
                each, now_ms, f"holds no offset {offsets[each][0]} (any more), the committed one"
            )
        while missing:
            too_young: dict[TopicPartition, int] = {}
            for partition, at in self._listed(missing).items():
                if at == NO_OFFSET:  # no record is as young as was asked for
                    too_young[partition] = LATEST
                else:
                    offsets[partition] = (at, offsets[partition][1] if partition in offsets else "")
            missing = too_young
        return offsets

    def _gone(self, committed: Mapping[TopicPartition, tuple[int, str]]) -> list[TopicPartition]:
        """Where retention has deleted what comes next, or the topic was made anew: then the reset decides again. To
        begin at the first record that is left is what consumers do by themselves here.
        """
        others = [each for each in committed if self._resets.get(each.topic, EARLIEST) != EARLIEST]
        if not others:
            return []
        begins, ends = self._listed(dict.fromkeys(others, FIRST)), self._listed(dict.fromkeys(others, LATEST))
        return [each for each in others if not begins[each] <= committed[each][0] <= ends[each]]

    def _listed(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for partition, answer in self._clients.admin.list_offsets(wanted).items():
            if isinstance(answer, KafkaError):
                raise answer
            found[partition] = answer.offset
        return found

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

    def _timestamp(self, partition: TopicPartition, now_ms: int, why: str) -> int:
        """What to ask for an input that has no offset yet: Kafka Streams' default is its first record."""
        timestamp = ResetPolicy.parse(self._resets.get(partition.topic, EARLIEST)).timestamp(now_ms)
        if timestamp is None:
            raise UserError(
                f"{partition.topic}-{partition.partition} {why} of {self._application_id}",
                "its reset is none, so nothing says where to begin",
                "kafka-consumer-groups --reset-offsets commits one; or take another reset",
            )
        return timestamp
