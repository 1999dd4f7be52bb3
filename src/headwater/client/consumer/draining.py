"""From completed fetches to what poll gives: records, deserialized, or columns.

Partitions take turns, fetch by fetch. A record or batch that cannot be read ends a poll before it, if there is
something to give, and is raised by the next one; `on_bad_record` may say otherwise. Positions move with what is given.
Its only state is where the poll under way began: Ctrl-C in the midst of it must not make read what nobody was given.
"""

from collections.abc import Callable
from typing import Any, Final, Protocol

from headwater.base.errors import UserError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.completed_fetch import CompletedFetch
from headwater.client.consumer.errors import RecordDeserializationError
from headwater.client.consumer.fetching import Fetcher
from headwater.client.consumer.positions import PartitionState
from headwater.client.consumer.record import ConsumerRecord
from headwater.client.consumer.subscription import Subscription
from headwater.client.serialization.lookups import LookupDeferred

Deserialize = Callable[[str, bytes | None, tuple[tuple[str, bytes | None], ...]], Any]
BadRecord = Callable[[RecordDeserializationError], "ConsumerRecord | None"]

_ROW_BYTES: Final = 64  # about what offset, timestamp and the like take of a row


class Columns(Protocol):
    """A `ColumnBuilder` of the codec."""

    @property
    def row_count(self) -> int: ...
    @property
    def data_bytes(self) -> int: ...


def bad_record_rule(given: object) -> BadRecord | None:
    """`on_bad_record`: "raise" (None), "skip", or a function: it may raise, give a record instead, or None to skip."""
    if given in (None, "raise"):
        return None
    if given == "skip":
        return lambda _: None
    if callable(given):
        return given
    raise UserError(f"on_bad_record cannot be {given!r}", "", 'It is "raise", "skip" or a function of the error')


class Drain:
    def __init__(
        self,
        fetcher: Fetcher,
        subscription: Subscription,
        *,
        key: Deserialize | None,
        value: Deserialize | None,
        bad_record: BadRecord | None,
    ) -> None:
        self._fetcher = fetcher
        self._subscription = subscription
        self._key = key
        self._value = value
        self._bad_record = bad_record
        self._began_at: dict[PartitionState, tuple[int, int]] = {}

    def begin(self) -> None:
        """A poll begins: what was taken before has been given."""
        self._began_at.clear()

    def give_back(self) -> None:
        """The poll was interrupted: what it took nobody has got."""
        for state, (position, epoch) in self._began_at.items():
            if state.has_position and self._subscription.states.get(state.partition) is state:
                state.seek(position, epoch)
        self._began_at.clear()

    def take(self, limit: int) -> list[ConsumerRecord]:
        """Up to `limit` records; none if nothing is buffered."""
        taken: list[ConsumerRecord] = []
        is_own = False  # a list that came alone is given as it is; it belongs to the fetch
        for state in self._turns():
            while len(taken) < limit and state.buffered:
                fetch = state.buffered[0]
                try:
                    given = self._some(state, fetch, limit - len(taken))
                except Exception:  # the next poll meets it again, with nothing before it
                    self._fetcher.enqueue(state, first=True)
                    if taken:
                        return self._counted(taken)
                    raise
                if given is None:
                    self._finish(state)
                    break
                if is_own:
                    taken.extend(given)
                else:
                    is_own = bool(taken)
                    taken = taken + given if taken else given
            if state.buffered:
                if len(taken) < limit:
                    self._fetcher.enqueue(state)
                else:
                    self._fetcher.enqueue(state, first=True)
            if len(taken) >= limit:
                break
        return self._counted(taken)

    def take_columns(self, builder: Any, max_records: int, max_bytes: int) -> int:
        """Fills a `ColumnBuilder`; gives how many rows came to it."""
        before: int = builder.row_count

        def room() -> int:
            rows: int = builder.row_count - before
            if builder.data_bytes + rows * _ROW_BYTES >= max_bytes and rows:
                return 0
            return max_records - rows

        for state in self._turns():
            while state.buffered and room() > 0:
                fetch = state.buffered[0]
                try:
                    rows = fetch.append_to(builder, room())
                except RecordDeserializationError as error:
                    if builder.row_count > before:
                        self._fetcher.enqueue(state, first=True)
                        return self._counted_rows(builder.row_count - before)
                    if not self._skip_batch(state, fetch, error):
                        self._fetcher.enqueue(state, first=True)
                        raise
                    continue
                state.moved(fetch)
                if rows < 0:
                    self._fetcher.enqueue(state, first=True)
                    return self._counted_rows(builder.row_count - before)
                if rows == 0:
                    self._finish(state)
            if state.buffered:
                self._fetcher.enqueue(state)
            if room() <= 0:
                break
        return self._counted_rows(builder.row_count - before)

    def _turns(self) -> Any:
        """The partitions with something to read, each once. Whoever is given one puts it back if something is left."""
        ready = self._fetcher.ready
        states = self._subscription.states
        for _ in range(len(ready)):
            if not ready:
                return
            state = ready.popleft()
            state.queued = False
            if not state.buffered or states.get(state.partition) is not state:
                continue
            if state.paused or state.held:
                self._fetcher.enqueue(state)
                continue
            self._began_at.setdefault(state, (state.position, state.epoch))
            yield state

    def _some(self, state: PartitionState, fetch: CompletedFetch, limit: int) -> list[ConsumerRecord] | None:
        """Records of one batch, maybe none after all. None: the fetch is at its end."""
        try:
            records = fetch.peek(limit)
        except RecordDeserializationError as error:
            if self._skip_batch(state, fetch, error):
                return []
            raise
        if not records:
            state.moved(fetch)
            return None
        if self._key is None and self._value is None:
            fetch.advance(len(records))
            state.moved(fetch)
            return records
        return self._deserialized(state, fetch, records)

    def _deserialized(
        self, state: PartitionState, fetch: CompletedFetch, records: list[ConsumerRecord]
    ) -> list[ConsumerRecord]:
        made: list[ConsumerRecord] = []
        done = 0
        try:
            for record in records:
                try:
                    made.append(self._convert(record))
                except RecordDeserializationError as error:
                    if self._bad_record is None:
                        raise
                    instead = self._bad_record(error)
                    if instead is not None:
                        made.append(instead)
                done += 1
        except Exception:  # also one of the user's own rule
            if not made:
                raise
        finally:
            fetch.advance(done)
            state.moved(fetch)
        return made

    def _convert(self, record: ConsumerRecord) -> ConsumerRecord:
        topic, partition, offset, timestamp, kind, key, value, headers, epoch, _ = record
        origin = "key"
        try:
            new_key = key if self._key is None else self._key(topic, key, headers)
            origin = "value"
            new_value = value if self._value is None else self._value(topic, value, headers)
        except LookupDeferred:
            raise
        except Exception as error:
            raise RecordDeserializationError(
                TopicPartition(topic, partition),
                offset,
                offset + 1,
                f"the {origin} cannot be deserialized ({type(error).__name__}: {error})",
                origin=origin,
                key=key,
                value=value,
                headers=headers,
                timestamp_ms=timestamp,
            ) from error
        sizes = (-1 if key is None else len(key), -1 if value is None else len(value))
        return ConsumerRecord(topic, partition, offset, timestamp, kind, new_key, new_value, headers, epoch, sizes)

    def _skip_batch(self, state: PartitionState, fetch: CompletedFetch, error: RecordDeserializationError) -> bool:
        state.moved(fetch)
        if self._bad_record is None:
            return False
        self._bad_record(error)
        fetch.skip_batch()
        state.moved(fetch)
        return True

    def _finish(self, state: PartitionState) -> None:
        state.drop_first()
        self._fetcher.dirty = True

    def _counted(self, taken: list[ConsumerRecord]) -> list[ConsumerRecord]:
        self._fetcher.counters["records"] += len(taken)
        return taken

    def _counted_rows(self, count: int) -> int:
        self._fetcher.counters["records"] += count
        return count
