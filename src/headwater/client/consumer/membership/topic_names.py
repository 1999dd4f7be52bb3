"""The names of topics that a coordinator speaks of by their ids."""

from collections.abc import Iterable

from headwater.base.errors import KafkaError
from headwater.client.session import Session
from headwater.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse


async def names_of(session: Session, topic_ids: Iterable[bytes]) -> dict[bytes, str]:
    """From the metadata, or by asking for it. Ids that no broker knows (yet, or any more) are missing."""
    wanted = set(topic_ids)
    unknown = wanted - {topic.topic_id for topic in session.view.topics.values()}
    if unknown:
        topics = [MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in sorted(unknown)]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        try:
            response = await session.call_any(request, MetadataResponse)
        except KafkaError:
            response = None
        if response is not None and not response.error_code:
            response.topics = [topic for topic in response.topics if topic.name and not topic.error_code]
            session.view.apply(response)
            session.changed.notify()
    return {topic.topic_id: topic.name for topic in session.view.topics.values() if topic.topic_id in wanted}
