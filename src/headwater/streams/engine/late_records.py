"""Records that windows left out because they came late, and those that were late for a join of streams, kept in a topic
on request: `App(late_records_to=...)`.

Kept is the record as it was read, with its own timestamp and headers, and behind these where it was read from, for
which node it was late and by how much. Once for each node, however many of its windows it missed. Written with the
other results of its record, so in the same transaction. Owned by one task.
"""

from typing import Final

from headwater.streams.model.record import Headers, InputRecord, OutputRecord

PREFIX: Final = "__streams.late."


class LateRecords:
    """Of the record that is being processed: the nodes that left it out."""

    __slots__ = ("_by_node", "topic")

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self._by_node: dict[str, int] = {}

    def add(self, node: str, by_ms: int) -> None:
        """Of several windows, the one that it missed by most counts."""
        self._by_node[node] = max(by_ms, self._by_node.get(node, 0))

    def take(self, raw: InputRecord) -> list[OutputRecord]:
        """What is to be written. A record of the very topic is not written there again."""
        if not self._by_node:
            return []
        found, self._by_node = self._by_node, {}
        if raw.topic == self.topic:
            return []
        return [late_record(self.topic, raw, node, by_ms) for node, by_ms in found.items()]


def late_record(topic: str, raw: InputRecord, node: str, by_ms: int) -> OutputRecord:
    told: Headers = (
        (PREFIX + "topic", raw.topic.encode()),
        (PREFIX + "partition", str(raw.partition).encode()),
        (PREFIX + "offset", str(raw.offset).encode()),
        (PREFIX + "node", node.encode()),
        (PREFIX + "by_ms", str(by_ms).encode()),
    )
    return OutputRecord(topic, None, raw.key, raw.value, max(0, raw.timestamp), raw.headers + told)
