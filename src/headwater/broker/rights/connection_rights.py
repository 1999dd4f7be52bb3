"""What one connection may read and write, as the guards found out: what the quick ways of Produce and Fetch compare.

Rights are noted by topic id, by the guard that has just allowed a request, and belong to one generation of the image's
rules: after any change of them nothing that was noted holds. An id is never given to a second topic, so a topic that
was deleted and made again under its name is not in here. The session's deadline is compared too, although the gate of
the login (server/security/secure_connection.py) has done so: a quick way that was reached by another door would still
decline.

Whatever is not noted here goes the general way, where the guard decides. Owned by its connection.
"""

from typing import Any, Final, final

from headwater.base.ids import TopicId

FOR_EVER_NS: Final = (1 << 63) - 1
TOPICS_MAX: Final = 10_000  # of one connection; then it begins anew


@final
class ConnectionRights:
    __slots__ = ("broker", "deadline_ns", "generation", "readable", "writable")

    def __init__(self, broker: Any, deadline_ns: int = FOR_EVER_NS) -> None:
        """`deadline_ns`: when the session ends, by the monotonic clock."""
        self.broker = broker  # the Broker, whose module contexts of requests must not know
        self.deadline_ns = deadline_ns
        self.generation = -1  # of the rules
        self.readable: set[bytes] = set()
        self.writable: set[bytes] = set()

    def hold(self) -> bool:
        """Whether what is noted may be used now. The compiled ways have this in `native/rights.h`."""
        return bool(self.generation == self.broker.image.acl_generation) and self.is_in_session()

    def is_in_session(self) -> bool:
        now_ms: int = self.broker.clock.monotonic_ms()
        return now_ms * 1_000_000 < self.deadline_ns

    def note_readable(self, topic_id: TopicId) -> None:
        self._note(self.readable, topic_id)

    def note_writable(self, topic_id: TopicId) -> None:
        self._note(self.writable, topic_id)

    def _note(self, noted: set[bytes], topic_id: TopicId) -> None:
        generation = self.broker.image.acl_generation
        if generation != self.generation or len(noted) >= TOPICS_MAX:
            self.readable.clear()
            self.writable.clear()
            self.generation = generation
        noted.add(topic_id)
