"""An administrator that also deletes records: what is acknowledged stays deleted, on every replica."""

from typing import Final

from headwater.base.errors import ErrorCode
from headwater.sim.clients.client import Ask, Script, Steps
from headwater.sim.cluster_clients.administering import ClusterAdmin
from headwater.sim.cluster_clients.routed import OUT_OF_DATE
from headwater.sim.cluster_history import TrimmedHistory
from headwater.sim.trace import Violation
from headwater.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic

_MAY_PASS: Final = OUT_OF_DATE | {
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.OFFSET_OUT_OF_RANGE,  # a new leader does not know yet that all this is committed
    ErrorCode.OFFSET_NOT_AVAILABLE,
}


class TrimmingAdmin(ClusterAdmin):
    def script(self) -> Script:
        yield from self.make_topics()
        while not self.is_stopping:
            yield self.random.randint(50, 600)
            yield from (self.change() if self.moves and self.random.random() < 0.4 else self._delete_records())

    def _delete_records(self) -> Steps:
        found = [
            (topic, index, history)
            for topic in self.world.catalog.usable()
            for index, history in enumerate(topic.partitions)
            if isinstance(history, TrimmedHistory) and history.ends.latest > 0
        ]
        if not found:
            return
        topic, index, history = self.random.choice(found)
        offset = self.random.randint(0, history.ends.latest)
        part = DeleteRecordsPartition(partition_index=index, offset=offset)
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic.name, partitions=[part])], timeout_ms=1000)
        lives = self.world.lives()
        (answer,) = yield [Ask(request, self.version(request.KEY))]
        if answer is None:
            return
        result = answer.topics[0].partitions[0]
        if result.error_code:
            if result.error_code not in _MAY_PASS:
                raise Violation(f"{self.name} got {ErrorCode(result.error_code).name}")
        elif result.low_watermark < offset:
            raise Violation(f"{history.name} was deleted up to {offset} and begins at {result.low_watermark}")
        elif self.world.lives() == lives:
            history.deleted(result.low_watermark)
