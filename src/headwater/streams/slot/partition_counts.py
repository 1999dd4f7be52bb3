"""How many partitions topics have, as the tasks of a run see it: those they read, and those their partitioners write
to.

A count is asked for once and asked again by time, never per record. What tasks read must not grow while they run: a
task per partition was planned at the start, so more of them end the run with an error for people, and so does a topic
that was deleted. What they write to may grow. While the cluster does not answer, what was known holds. Owned by the
slot, whose thread calls it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from headwater.base.errors import KafkaError, UserError
from headwater.streams.engine.failures import ClusterFailure

REFRESH_S: Final = 10.0
GONE_TIMES: Final = 3  # in a row: a broker that has just started may not know all topics yet

Ask = Callable[[Iterable[str]], Mapping[str, int]]  # the counts of those topics that are there
AskGone = Callable[[Iterable[str]], Collection[str]]  # which topics brokers say are not there


class PartitionCounts:
    def __init__(
        self,
        ask: Ask,
        read: Mapping[str, int],
        written: Iterable[str] = (),
        ask_gone: AskGone = lambda _: (),
        may_go: Collection[str] = (),
    ) -> None:
        """`read`: the topics that the run was planned with; `may_go`: those of them that it can do without. `written`:
        those to ask for before the first record.
        """
        self._ask, self._ask_gone = ask, ask_gone
        self._needed = read.keys() - set(may_go)
        self._gone: dict[str, int] = {}  # how often in a row a topic was said not to be there
        self._read = dict(read)
        self._known = dict(read)
        self._wanted = set(written)
        self._refresh_at = 0.0

    def __call__(self, topic: str) -> int:
        """Raises ClusterFailure if it is not known and the cluster does not answer: that is no fault of the record."""
        count = self._known.get(topic)
        return count if count is not None else self._first(topic)

    def _first(self, topic: str) -> int:
        self._wanted.add(topic)
        try:
            found = self._ask([topic])
        except (KafkaError, TimeoutError) as error:
            raise ClusterFailure(error) from error
        if not found.get(topic):
            raise ClusterFailure(
                UserError(
                    f"The topic {topic} is not there, and records are to be written to it",
                    "topics of users are not created by applications",
                    f"headwater topic create {topic} --partitions N",
                )
            )
        self._known[topic] = found[topic]
        return found[topic]

    def refresh(self, now: float) -> None:
        """Asks again when it is time. Raises UserError if a topic that is read has more partitions than at the start,
        or was deleted.
        """
        if now < self._refresh_at:
            return
        self._refresh_at = now + REFRESH_S
        try:
            found = self._ask(sorted(self._wanted | self._known.keys()))
            gone = self._ask_gone(silent) if (silent := sorted(self._needed - found.keys())) else ()
        except (KafkaError, TimeoutError):
            return
        self._gone = {topic: self._gone.get(topic, 0) + 1 for topic in gone}
        for topic, times in self._gone.items():
            if times >= GONE_TIMES:
                raise UserError(
                    f"The topic {topic}, which the application reads, is not there any more",
                    "it was deleted while the application ran",
                    "Create it and start the application again; it begins there as its reset says",
                )
        for topic, count in found.items():
            planned = self._read.get(topic)
            if planned is not None and count > planned:  # fewer is what a broker says that has not heard yet
                raise UserError(
                    f"The topic {topic} has {count} partitions now, and had {planned} when the application started",
                    "each partition of an input has its own task, and tasks are planned at the start",
                    "Start the application again; if it has internal topics of the old number, reset it first",
                )
            if count > self._known.get(topic, 0):
                self._known[topic] = count
