"""DeleteTopics: by name, and by id from v6 on.

v3 has TOPIC_DELETION_DISABLED, v4 is flexible, v5 answers a message with each error.
"""

from headwater.wire.schema import INT16, INT32, STRING, UUID, Array, Message, Struct, field


class DeleteTopicState(Struct):
    name: str | None = field(STRING, nullable_since=0)
    topic_id: bytes = field(UUID)


class DeleteTopicsRequest(Message, key=20, versions=(1, 6), flexible_since=4):
    topics: list[DeleteTopicState] = field(Array(DeleteTopicState), since=6)
    topic_names: list[str] = field(Array(STRING), until=5)
    timeout_ms: int = field(INT32)


class DeletableTopicResult(Struct):
    name: str | None = field(STRING, nullable_since=6)
    topic_id: bytes = field(UUID, since=6)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, since=5, nullable_since=0)


class DeleteTopicsResponse(Message, key=20, versions=(1, 6), flexible_since=4):
    throttle_time_ms: int = field(INT32)
    responses: list[DeletableTopicResult] = field(Array(DeletableTopicResult))
