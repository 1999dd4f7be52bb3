"""An administrator: makes and deletes topics, adds partitions, changes configs, deletes records, now and then.

Names: `durable-…` topics have flush.messages=1 from the start, `plain-…` ones do not. Names with `again` are used more
than once, all others never. An answer that is lost leaves open what happened; Metadata tells later.
"""

from typing import TYPE_CHECKING, Final

from headwater.base.errors import ErrorCode
from headwater.sim.catalog import Topic
from headwater.sim.clients.client import Ask, Script, Steps
from headwater.sim.clients.consumer import EARLIEST, LATEST, Reader
from headwater.sim.trace import Violation
from headwater.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headwater.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headwater.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from headwater.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headwater.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

if TYPE_CHECKING:
    from headwater.sim.stage import Stage

_TOPICS_MAX: Final = 5
_MAY_PASS: Final = (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.REQUEST_TIMED_OUT)
_CONFIGS: Final = (
    ("retention.ms", ("600000", "604800000")),
    ("retention.bytes", ("1500", "-1")),
    ("segment.ms", ("200", "700", "60000")),
    ("compression.type", ("producer", "gzip", "uncompressed")),
    ("message.timestamp.type", ("CreateTime", "LogAppendTime")),
)


class Admin(Reader):
    def __init__(self, world: "Stage", name: str) -> None:
        super().__init__(world, name)
        self._made = 0

    def script(self) -> Script:
        yield from self._create()
        while not self.is_stopping:
            todo = self.random.choices(
                (self._create, self._delete, self._add_partitions, self._configure, self._delete_records, self._look),
                (4, 2, 2, 3, 2, 4),
            )[0]
            yield from todo()
            yield self.random.randint(20, 500)

    def _topic(self) -> Topic | None:
        usable = self.world.catalog.usable()
        return self.random.choice(usable) if usable else None

    def _create(self) -> Steps:
        if len(self.world.catalog.usable()) >= _TOPICS_MAX:
            return
        kind = self.random.choice(("durable", "plain"))
        self._made += 1
        name = f"{kind}-again" if self.random.random() < 0.3 else f"{kind}-{self.name}-{self._made}"
        configs = [CreatableTopicConfig(name="flush.messages", value="1")] if kind == "durable" else []
        topic = CreatableTopic(
            name=name,
            num_partitions=self.random.randint(1, 3),
            replication_factor=1,
            assignments=[],
            configs=configs,
        )
        (answer,) = yield [Ask(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 7)]
        if answer is None:
            yield from self.metadata()
            return
        (result,) = answer.topics
        if result.error_code == 0:
            self.world.catalog.created(name, result.topic_id, result.num_partitions)
        else:
            self._excuse(result.error_code, ErrorCode.TOPIC_ALREADY_EXISTS)

    def _delete(self) -> Steps:
        topic = self._topic()
        if topic is None or len(self.world.catalog.usable()) < 2:
            return
        topic.delete_asked = True
        while not topic.delete_done:
            if topic.may_be_named and self.random.random() < 0.5:
                ask = Ask(DeleteTopicsRequest(topic_names=[topic.name], timeout_ms=5000), self.random.randint(1, 5))
            else:
                state = DeleteTopicState(name=None, topic_id=topic.topic_id)
                ask = Ask(DeleteTopicsRequest(topics=[state], timeout_ms=5000), 6)
            (answer,) = yield [ask]
            if answer is not None:
                code = answer.responses[0].error_code
                unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
                if code in (0, *unknown):
                    topic.delete_done = True
                    return
                self._excuse(code)
            if self.is_stopping:
                return
            yield 300

    def _add_partitions(self) -> Steps:
        topic = self._topic()
        if topic is None or not topic.may_be_named or len(topic.partitions) >= 4:
            return
        asked = CreatePartitionsTopic(name=topic.name, count=len(topic.partitions) + 1, assignments=None)
        request = CreatePartitionsRequest(topics=[asked], timeout_ms=5000)
        (answer,) = yield [Ask(request, self.version(request.KEY))]
        if answer is None:
            return
        code = answer.results[0].error_code
        if code == 0:
            topic.has_partitions(asked.count)
        else:
            self._excuse(code, ErrorCode.INVALID_PARTITIONS, topic=topic)

    def _configure(self) -> Steps:
        topic = self._topic()
        if topic is None or not topic.may_be_named:
            return
        name, values = self.random.choice(_CONFIGS)
        change = AlterableConfig(name=name, config_operation=0, value=self.random.choice(values))
        resource = AlterConfigsResource(resource_type=2, resource_name=topic.name, configs=[change])
        request = IncrementalAlterConfigsRequest(resources=[resource])
        (answer,) = yield [Ask(request, self.version(request.KEY))]
        if answer is not None and answer.responses[0].error_code:
            self._excuse(answer.responses[0].error_code, topic=topic)

    def _delete_records(self) -> Steps:
        topic = self._topic()
        if topic is None:
            return
        index = self.random.randrange(len(topic.partitions))
        history = topic.partitions[index]
        offset = self.random.randint(0, history.ends.latest)
        part = DeleteRecordsPartition(partition_index=index, offset=offset)
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic.name, partitions=[part])], timeout_ms=3000)
        asked = history.ends
        losses = history.losses
        (answer,) = yield [Ask(request, self.version(request.KEY))]
        if answer is None or history.losses > losses:
            return
        result = answer.topics[0].partitions[0]
        if result.error_code == 0:
            if result.low_watermark < offset:
                raise Violation(f"{history.name} deleted up to {offset} and begins at {result.low_watermark}")
            history.told_earliest(result.low_watermark, asked)
        else:
            self._excuse(result.error_code, topic=topic)

    def _look(self) -> Steps:
        """Metadata, and the ends of a partition."""
        yield from self.metadata()
        topic = self._topic()
        if topic is not None:
            yield from self.end_offset(
                topic, self.random.randrange(len(topic.partitions)), self.random.choice((EARLIEST, LATEST))
            )

    def _excuse(self, code: int, *allowed: ErrorCode, topic: Topic | None = None) -> None:
        unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
        if code in _MAY_PASS or code in allowed or (topic is not None and topic.delete_asked and code in unknown):
            return
        raise Violation(f"{self.name} got {ErrorCode(code).name}")
