"""A new version of an application beside the former one: `headwater stream reprocess`.

The new version has a name of its own, so its own offsets, state and internal topics. It reads its inputs from the first
record and writes to shadow topics, one for each output: `<output>-<application>-shadow`. When it has caught up, the
outputs are compared as tables. The switch is: the former version is stopped (fenced, as by a successor); the new one
goes on until it has processed whatever the former has, and stops; one transaction writes to each output what makes its
table that of the shadow; the shadows are deleted. From then on the new version runs in the ordinary way, and writes to
the outputs themselves.

Each step can be done again, so whatever was interrupted is simply started again. Where the switch stands is told by the
cluster: a new version that has offsets and no shadows was switched already, and is refused.
"""

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.base.ids import TopicPartition
from headwater.client.admin import Admin
from headwater.client.consumer.ranges import RangeReader
from headwater.client.outcomes import all_or_raise
from headwater.client.producer.producer import Producer
from headwater.client.types import EARLIEST, LATEST, READ_COMMITTED, NewTopic
from headwater.streams.lead.membership import INSTANCE, Lead
from headwater.streams.plan.sources import EARLIEST as EARLIEST_RECORD
from headwater.streams.protocol import task_ownership as protocol
from headwater.streams.reprocessing.comparison import Comparison, Table, compare, corrections, together
from headwater.streams.topics.internal import partitions_of
from headwater.streams.topology.topology import SinkNode

if TYPE_CHECKING:
    from headwater.streams.dsl.app import App
    from headwater.streams.lead.local_run import LocalRun
    from headwater.streams.slot.settings import RunSettings

_POLL_S: Final = 0.05


def shadow_of(topic: str, application_id: str) -> str:
    return f"{topic}-{application_id}-shadow"


def outputs_of(app: "App") -> dict[str, list[SinkNode]]:
    """The topics that the application writes for others, with their sinks. Raises UserError for what cannot be given a
    shadow.
    """
    topology = app.topology()
    if app.feeds:
        raise UserError(
            f"The application {app.name} reads the DataFrame {app.feeds[0].name}",
            "where it ends is not known, so neither is when everything is processed",
            "Write the frame to a topic of your own, and read that",
        )
    for source in topology.sources():
        if source.pattern is not None:
            raise UserError(
                f"{source.name} reads all topics that match {source.pattern}",
                "when everything is processed is known of topics that are named; and a shadow may match, too",
                "Name the topics in the version that reprocesses",
            )
    read = {topic for source in topology.sources() for topic in source.topics}
    found: dict[str, list[SinkNode]] = {}
    for node in topology.nodes.values():
        if not isinstance(node, SinkNode) or node.topic in topology.internal_topics:
            continue
        if node.topic in topology.frame_topics:
            continue  # it has the application's own name, so the former version has another
        if not isinstance(node.topic, str):
            raise UserError(
                f"{node.name} chooses its topic record by record", "what is reprocessed needs outputs that are known"
            )
        if node.topic in read:
            raise UserError(
                f"The application {app.name} reads the topic {node.topic}, and writes it",
                "the former version's records would be read by the new one",
                "Send it through .repartition() instead of .through()",
            )
        found.setdefault(node.topic, []).append(node)
    if not found:
        raise UserError(f"The application {app.name} has no output", "there is nothing to compare or to switch")
    return found


class Reprocessing:
    """Of one new version beside one former one. Owns its admin client, and the run while there is one."""

    def __init__(self, app: "App", former: str, settings: "RunSettings") -> None:
        if app.name == former:
            raise UserError(
                f"Both versions are called {former}",
                "the name is the consumer group and begins the internal topics: one would take the other's place",
                f'Give the new version a name of its own: App("{former}-v2")',
            )
        self._app = app
        app.late_records_to = None  # as long as it is a shadow, it writes to no topic of others
        self._former = former
        self._settings = settings
        self._outputs = outputs_of(app)
        self._resets = [(source, source.reset) for source in app.topology().sources()]
        self._admin = Admin(settings.for_admins)
        self._reader = RangeReader(settings.for_consumers)

    def close(self) -> None:
        for topic, sinks in self._outputs.items():
            for sink in sinks:
                sink.topic = topic
        for source, reset in self._resets:
            source.reset = reset
        self._reader.close()
        self._admin.close()

    def __enter__(self) -> "Reprocessing":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def shadows(self) -> dict[str, str]:
        return {topic: shadow_of(topic, self._app.name) for topic in self._outputs}

    # Steps

    def catch_up(self) -> list[Comparison]:
        """The new version processes everything that is there, and stops; then the outputs are compared."""
        self._make_shadows()
        with self._run() as run:
            self._until_processed(run, self._ends(self._inputs()))
        return self.compare()

    def switch(self, differences_max: int | None = None) -> list[Comparison]:
        """Stops the former version and lets the outputs show the new one's results. Gives what was different until
        then.
        """
        self._make_shadows()
        with self._run() as run:
            self._until_processed(run, self._ends(self._inputs()))
            if differences_max is not None:
                self._refuse_beyond(differences_max)
            self._stop_former()
            done = self._committed(self._former)
            self._until_processed(run, {each: at for each, at in done.items() if each.topic in self._inputs()})
        found = self.compare()
        for topic, shadow in self.shadows.items():
            self._publish(topic, shadow)
        self._delete_shadows()
        return found

    def compare(self) -> list[Comparison]:
        return [
            together(topic, (compare(topic, *both) for both in self._tables(topic, shadow)))
            for topic, shadow in self.shadows.items()
        ]

    def _refuse_beyond(self, most: int) -> None:
        for each in self.compare():
            if each.differences > most:
                raise UserError(
                    f"The versions differ in {each.differences} rows of {each.topic}",
                    f"at most {most} were allowed for the switch, so nothing was switched",
                    "Compare without --switch, and look at the examples",
                )

    # The new version

    def _make_shadows(self) -> None:
        outputs = partitions_of(self._admin, [*self._outputs, *self.shadows.values()])
        for topic in self._outputs:
            if topic not in outputs:
                raise UserError(f"The output {topic} is not there", f"{self._former} has not written it")
        missing = [topic for topic, shadow in self.shadows.items() if shadow not in outputs]
        if missing and self._committed(self._app.name):
            raise UserError(
                f"The application {self._app.name} has run already, and not as a shadow",
                "it was switched, or started by itself",
                "To begin anew, stop it, and reset it: headwater stream reset FILE",
            )
        wanted = [
            NewTopic(self.shadows[topic], partitions=outputs[topic], configs={"retention.ms": "-1"})
            for topic in missing
        ]
        for answer in (self._admin.create_topics(wanted) if wanted else {}).values():
            if isinstance(answer, KafkaError) and answer.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise answer

    def _delete_shadows(self) -> None:
        all_or_raise(self._admin.delete_topics(list(self.shadows.values())))

    def _run(self) -> "LocalRun":
        from headwater.streams.lead.local_run import LocalRun

        for topic, sinks in self._outputs.items():
            for sink in sinks:  # until `close`: tasks that are opened again read it again
                sink.topic = self.shadows[topic]
        for source, _ in self._resets:  # of everything, wherever the application or the run would begin
            source.reset = EARLIEST_RECORD
        return LocalRun(self._app, self._settings).start()

    def _inputs(self) -> set[str]:
        return {t for source in self._app.topology().sources() if not source.is_global for t in source.topics} - set(
            self._app.topology().internal_topics
        )

    def _until_processed(self, run: "LocalRun", ends: Mapping[TopicPartition, int]) -> None:
        """Up to these offsets, and what came of it in repartition topics."""
        self._until_committed(run, ends)
        internal = [f"{self._app.name}-{topic}" for topic in self._app.topology().internal_topics]
        for _ in internal:  # they may hang on each other
            self._until_committed(run, self._ends(internal))

    def _until_committed(self, run: "LocalRun", ends: Mapping[TopicPartition, int]) -> None:
        before: dict[TopicPartition, int] = {}
        while True:
            committed = self._committed(self._app.name)
            left = {each: committed.get(each, 0) for each, end in ends.items() if committed.get(each, 0) < end}
            if not left or (committed == before and not self._has_records(left, ends)):
                return
            before = committed
            if run.wait(_POLL_S):
                raise UserError(f"The application {self._app.name} has ended before it had caught up")

    def _has_records(self, left: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> bool:
        """Behind a committed offset may be markers alone, which nobody processes."""
        for partition, begin in left.items():
            for _ in self._reader.records(partition, begin, ends[partition], lost="skip"):
                return True
        return False

    # The former version

    def _stop_former(self) -> None:
        """Fences it, as a successor does: what it has not committed is lost to it. It must not be started again."""
        done = self._committed(self._former)
        topics = sorted(
            {partition.topic for partition in done} & set(partitions_of(self._admin, {p.topic for p in done}))
        )
        if not topics:
            return  # it has never run
        strangers = [member for member in self._members(self._former) if member.instance_id != INSTANCE]
        if strangers:
            raise UserError(
                f"The application {self._former} runs, and not with headwater.streams",
                f"its group has {len(strangers)} members of another kind, which cannot be stopped from here",
                "Stop it, and start the switch again",
            )
        settings = self._settings
        lead = Lead(self._former, settings.for_admins, settings.for_consumers, topics, settings.transaction_timeout_ms)
        try:
            lead.drive(protocol.start_steps(()))
        finally:
            lead.close()  # it stays a member for a while: one that leaves would make room for the former version again

    def _members(self, group: str) -> list[Any]:
        try:
            return list(self._admin.describe_group(group).members)
        except KafkaError as error:
            if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
                raise
            return []

    # The outputs

    def _publish(self, topic: str, shadow: str) -> None:
        """In one transaction: readers of committed records see the former table, or the new one. Done again it writes
        nothing.
        """
        changes = [change for both in self._tables(topic, shadow) for change in corrections(*both)]
        if not changes:
            return
        producer = Producer({**self._settings.for_producers, "transactional.id": f"{shadow}-switch"})
        try:
            producer.init_transactions()
            producer.begin_transaction()
            now_ms = time.time_ns() // 1_000_000
            sent = [
                producer.send(
                    topic,
                    change.row.value if change.row is not None else None,
                    key=change.key,
                    partition=change.partition,
                    headers=list(change.row.headers) if change.row is not None else [],
                    timestamp_ms=change.row.timestamp if change.row is not None else now_ms,
                )
                for change in changes
            ]
            producer.flush()
            for delivery in sent:
                delivery.result()
            producer.commit_transaction()
        finally:
            producer.close()

    def _tables(self, topic: str, shadow: str) -> Iterator[tuple[Table, Table]]:
        """Of each partition, in both versions."""
        counts = partitions_of(self._admin, [topic, shadow])
        for index in range(max(counts.values())):
            former, new = (
                self._table(TopicPartition(each, index)) if index < counts[each] else Table()
                for each in (topic, shadow)
            )
            yield former, new

    def _table(self, partition: TopicPartition) -> Table:
        table = Table()
        begins, ends = self._reader.ends([partition], earliest=True), self._reader.ends([partition], earliest=False)
        for record in self._reader.records(partition, begins[partition], ends[partition], lost="skip"):
            table.take(record.partition, record.key, record.value, record.timestamp_ms, record.headers)
        return table

    # Offsets

    def _committed(self, group: str) -> dict[TopicPartition, int]:
        try:
            found = self._admin.list_group_offsets(group, require_stable=True)
        except KafkaError as error:
            if error.code == ErrorCode.GROUP_ID_NOT_FOUND:
                return {}
            if error.code != ErrorCode.UNSTABLE_OFFSET_COMMIT:
                raise
            found = self._admin.list_group_offsets(group)
        return {partition: each.offset for partition, each in found.items() if each.offset >= 0}

    def _ends(self, topics: "set[str] | list[str]") -> dict[TopicPartition, int]:
        """Of committed records; partitions without any are left out."""
        counts = partitions_of(self._admin, topics)
        partitions = [TopicPartition(topic, index) for topic, count in counts.items() for index in range(count)]
        found = {}
        if partitions:
            begins = self._admin.list_offsets(dict.fromkeys(partitions, EARLIEST))
            ends = self._admin.list_offsets(dict.fromkeys(partitions, LATEST), isolation_level=READ_COMMITTED)
            for partition in partitions:
                begin, end = begins[partition], ends[partition]
                for answer in (begin, end):
                    if isinstance(answer, KafkaError):
                        raise answer
                assert not isinstance(begin, KafkaError)
                assert not isinstance(end, KafkaError)
                if end.offset > begin.offset:
                    found[partition] = end.offset
        return found
