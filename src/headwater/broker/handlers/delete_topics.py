"""DeleteTopics (key 20), versions 1 to 6: by name, and from v6 on by name or id, each topic on its own.

Records are out of reach when the answer goes out; the files follow after `file.delete.delay.ms`.
"""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import NO_TOPIC_ID, TopicId
from headwater.broker.context import RequestContext
from headwater.broker.deferred import Deferred
from headwater.broker.requested_change import CountedChange, refuse, refuse_rest
from headwater.metadata.image import TopicDeleted, TopicState
from headwater.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

_FIRST_WITH_IDS: Final = 6
_FIRST_WITH_DISABLED_ERROR: Final = 3


def handle(broker: "Broker", context: RequestContext, request: DeleteTopicsRequest) -> Deferred:
    asked = request.topics
    if context.api_version < _FIRST_WITH_IDS:
        asked = [DeleteTopicState(name=name, topic_id=NO_TOPIC_ID) for name in request.topic_names]
    return _Deletion(broker, context, asked).submit()


class _Deletion(CountedChange):
    def __init__(self, broker: "Broker", context: RequestContext, asked: list[DeleteTopicState]) -> None:
        super().__init__(broker, context)
        self._version = context.api_version
        self._asked = asked
        self._results: list[DeletableTopicResult] = []

    def plan(self) -> Sequence[TopicDeleted]:
        changes: dict[TopicId, TopicDeleted] = {}
        counts = Counter((topic.name, topic.topic_id) for topic in self._asked)
        for asked in self._asked:
            count = counts.pop((asked.name, asked.topic_id), 0)
            if count == 0:
                continue  # the first of several has been answered for all
            result = DeletableTopicResult(name=asked.name, topic_id=asked.topic_id, error_code=0)
            self._results.append(result)
            try:
                topic = self._find(asked, is_repeated=count > 1)
                if topic.topic_id in changes:  # once by its name and once by its id
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic id.")
                self._refuse_if_disabled()
                self.count(len(topic.partitions))
            except KafkaError as problem:
                refuse(result, problem)
            else:
                result.name, result.topic_id = topic.name, topic.topic_id
                changes[topic.topic_id] = TopicDeleted(topic.topic_id)
        return list(changes.values())

    def done(self, error: KafkaError | None) -> None:
        if error is not None:
            refuse_rest(self._results, error)
        self.answer(DeleteTopicsResponse(responses=self._results), error)

    def _find(self, asked: DeleteTopicState, *, is_repeated: bool) -> TopicState:
        has_id = asked.topic_id != NO_TOPIC_ID
        if asked.name is None and not has_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
        if asked.name is not None and has_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
        if is_repeated:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Duplicate topic {'id' if asked.name is None else 'name'}.")
        if asked.name is None:
            return self._broker.image.topic_by_id(TopicId(asked.topic_id))
        return self._broker.image.topic(asked.name)

    def _refuse_if_disabled(self) -> None:
        if not self._broker.config.bool("delete.topic.enable"):
            newer = self._version >= _FIRST_WITH_DISABLED_ERROR
            code = ErrorCode.TOPIC_DELETION_DISABLED if newer else ErrorCode.INVALID_REQUEST
            raise KafkaError(code, "Topic deletion is disabled.")
