"""Keeps the metadata of a consumer's topics fresh, and matches a pattern against the topics that there are.

One task, while there is something to watch: it asks when `metadata.max.age.ms` is over, and at once when the
subscription changes. Owned by the core.
"""

from collections.abc import Callable
from typing import Final

from headwater.base.errors import KafkaError
from headwater.client.consumer.subscription import Kind, Subscription
from headwater.client.reactor.kernel import Cancelled, Signal, Task, TimedOut
from headwater.client.session import Session
from headwater.client.types import Topic

_UNKNOWN_AGE_MS_MAX: Final = 5_000  # a topic that is not there yet may come any moment


class TopicWatch:
    """`matched` is called when other topics match the pattern than before; `refused` with a topic that may not be seen,
    or cannot be; `refreshed` after every answer.
    """

    def __init__(
        self,
        session: Session,
        subscription: Subscription,
        *,
        auto_create: bool,
        exclude_internal: bool,
        matched: Callable[[], None],
        refused: Callable[[str, KafkaError], None],
        refreshed: Callable[[], None],
    ) -> None:
        self.known = False  # the names that the pattern matches are known
        self._session = session
        self._subscription = subscription
        self._auto_create = auto_create
        self._exclude_internal = exclude_internal
        self._matched = matched
        self._refused = refused
        self._refreshed = refreshed
        self._changed = Signal()
        self._task: Task[None] | None = None

    def subscription_changed(self) -> None:
        self.known = self._subscription.kind is not Kind.PATTERN
        self._changed.notify()
        if self._subscription.kind is not Kind.NOTHING and (self._task is None or self._task.done):
            self._task = self._session.kernel.spawn(self._watch(), "topics")

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _watch(self) -> None:
        failures = 0
        while True:
            changed = self._changed.next()
            wait_ms = self._session.settings.metadata_max_age_ms
            try:
                if self._subscription.kind is not Kind.NOTHING:
                    topics = await self._ask()
                    if any(not topic.partitions for topic in topics):
                        wait_ms = min(wait_ms, _UNKNOWN_AGE_MS_MAX)
                failures = 0
            except Cancelled:
                raise
            except KafkaError:
                wait_ms = self._session.settings.backoff.delay_ms(failures, 0.5)
                failures += 1
            try:
                await self._session.kernel.within(max(wait_ms, 1) / 1000, changed)
            except TimedOut:
                continue

    async def _ask(self) -> list[Topic]:
        subscription = self._subscription
        if subscription.kind is Kind.PATTERN:
            topics = await self._session.refresh(None)
            if subscription.pattern is not None:
                names = [
                    topic.name
                    for topic in topics
                    if not topic.error and not (topic.internal and self._exclude_internal)
                ]
                changed = subscription.match(names)
                first, self.known = not self.known, True
                if changed or first:
                    self._matched()
        else:
            wanted = sorted(name for name in subscription.topic_names() if self._is_wanted(name))
            auto_create = self._auto_create and subscription.by_name
            topics = await self._session.refresh(wanted, auto_create=auto_create) if wanted else []
            for topic in topics:
                if topic.error and not topic.error.retriable:
                    self._refused(topic.name, KafkaError(topic.error, f"topic {topic.name!r}"))
        self._refreshed()
        return topics

    def _is_wanted(self, name: str) -> bool:
        known = self._session.view.topics.get(name)
        return known is None or not known.partitions or self._session.is_stale(name)
