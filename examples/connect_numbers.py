"""A source connector of one's own: numbers in a row, as fast as they are taken, never one twice after a clean restart.

Registered by an entry point of the package that it is in:

    [project.entry-points."headwater.connect.connectors"]
    Numbers = "my_package.connect_numbers:NumbersConnector"

it is `connector.class=Numbers` in a config. Run as it stands, it shows itself in a worker against an embedded broker.
"""

from collections.abc import Mapping

from headwater.client import Consumer, TopicPartition
from headwater.connect.api import SourceConnector, SourceTask
from headwater.connect.config.definition import ConfigDef
from headwater.connect.config.keys import HIGH, MEDIUM, REQUIRED, text, whole
from headwater.connect.data.record import SourceRecord
from headwater.connect.data.schema import INT64
from headwater.testing.broker import Broker
from headwater.testing.connect import ConnectWorker


class NumbersTask(SourceTask):
    def start(self, props: Mapping[str, str]) -> None:
        config = NumbersConnector.config_def.parse(props)
        self._topic, self._last = config["topic"], config["last"]
        where = self.context.offset_reader.offset({"row": "numbers"})
        self._next = where["next"] if where is not None else 1

    async def poll(self) -> list[SourceRecord] | None:  # a plain `def` does as well
        if self._next > self._last:
            return None
        number, self._next = self._next, self._next + 1
        return [
            SourceRecord(
                topic=self._topic,
                value_schema=INT64,
                value=number,
                source_partition={"row": "numbers"},
                source_offset={"next": self._next},
            )
        ]


class NumbersConnector(SourceConnector):
    doc = "Numbers in a row."
    config_def = ConfigDef(text("topic", REQUIRED, HIGH, "Where they go."), whole("last", 10, MEDIUM, "The last one."))
    task_class = NumbersTask


def main() -> None:
    with Broker() as broker, ConnectWorker(broker.bootstrap_servers, {"Numbers": NumbersConnector}) as worker:
        worker.create("ten", {"connector.class": "Numbers", "topic": "numbers", "value.converter": "LongConverter"})
        with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition("numbers", 0)])
            seen: list[int] = []
            while len(seen) < 10:
                seen += [int.from_bytes(record.value, "big") for record in consumer.poll(1.0)]
        print(*seen)


if __name__ == "__main__":
    main()
