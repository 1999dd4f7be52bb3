"""Foreign-key joins: the left row names the key of a row on the right.

Five nodes, as in Kafka Streams. `SubscriptionSend` (left) sends a subscription, keyed by the foreign key, to the right
side's partition. There `SubscriptionReceive` keeps it in a store, and `SubscriptionJoin` answers with the right row of
now; `ForeignTableJoin` answers all subscribers when a right row changes. `ResponseJoin` (left) takes an answer only if
its hash is that of the left row as it is now: one that was overtaken is dropped.
"""

from collections.abc import Callable
from enum import IntEnum
from struct import Struct
from typing import Any, Final, NamedTuple

from headwater.streams.engine.murmur3 import hash128
from headwater.streams.engine.table import ValueGetter
from headwater.streams.model.processor import Context, Processor
from headwater.streams.model.record import Record
from headwater.streams.serdes.port import Serde

_INT: Final = Struct(">i")
_NO_HASH: Final = 0x80
_VERSION: Final = 1


class Instruction(IntEnum):
    DELETE_KEY_NO_PROPAGATE = 0
    DELETE_KEY_AND_PROPAGATE = 1
    PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE = 2
    PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE = 3


class Subscription(NamedTuple):
    """Of a left row: the hash of its value (None for a deletion), what to do, its key, its partition."""

    hash: bytes | None
    instruction: Instruction
    primary_key: Any
    primary_partition: int


class Response(NamedTuple):
    hash: bytes | None
    value: Any
    primary_partition: int | None


class SubscriptionSerde:
    """Version (1; the highest bit says that there is no hash), instruction (1), hash (16), key, partition (4)."""

    name = "subscription"

    def __init__(self, key: Serde) -> None:
        self._key = key

    def serialize(self, value: Subscription) -> bytes:
        head = _VERSION if value.hash is not None else _VERSION | _NO_HASH
        key = self._key.serialize(value.primary_key)
        return bytes((head, value.instruction)) + (value.hash or b"") + key + _INT.pack(value.primary_partition)

    def deserialize(self, data: bytes) -> Subscription:
        begin = 2 if data[0] & _NO_HASH else 18
        hashed = None if begin == 2 else data[2:18]
        key = self._key.deserialize(data[begin:-4])
        return Subscription(hashed, Instruction(data[1]), key, _INT.unpack_from(data, len(data) - 4)[0])


class ResponseSerde:
    """Version 0 (1; the highest bit says that there is no hash), hash (16), value or nothing."""

    name = "subscription-response"

    def __init__(self, value: Serde) -> None:
        self._value = value

    def serialize(self, value: Response) -> bytes:
        head = bytes((_NO_HASH,)) if value.hash is None else b"\x00" + value.hash
        return head if value.value is None else head + self._value.serialize(value.value)

    def deserialize(self, data: bytes) -> Response:
        begin = 1 if data[0] & _NO_HASH else 17
        hashed = None if begin == 1 else data[1:17]
        return Response(hashed, self._value.deserialize(data[begin:]) if len(data) > begin else None, None)


class CombinedKeys:
    """The key of a subscription in its store: length of the foreign key (4), foreign key, primary key."""

    def __init__(self, foreign: Serde, primary: Serde) -> None:
        self._foreign = foreign
        self._primary = primary

    def prefix(self, foreign_key: Any) -> bytes:
        raw = self._foreign.serialize(foreign_key)
        return _INT.pack(len(raw)) + raw

    def key(self, foreign_key: Any, primary_key: Any) -> bytes:
        return self.prefix(foreign_key) + self._primary.serialize(primary_key)


class SubscriptionSend(Processor):
    def __init__(
        self, extractor: Callable[[Any, Any], Any], foreign: Serde, value: Serde, left: bool, versioned: bool
    ) -> None:
        self._extractor = extractor
        self._foreign = foreign
        self._value = value
        self._left = left
        self._versioned = versioned

    def process(self, record: Record) -> None:
        change = record.value
        if self._versioned and not change.is_latest:
            self.context.drop("out of order in a versioned table")
            return
        if change.new is None and change.old is None:
            return
        new = None if change.new is None else self._extractor(record.key, change.new)
        old = None if change.old is None else self._extractor(record.key, change.old)
        steps = self._left_steps(old, new) if self._left else self._inner_steps(change, old, new)
        for foreign_key, instruction in steps:
            self._send(record, foreign_key, instruction)

    def _left_steps(self, old: Any, new: Any) -> list[tuple[Any, Instruction]]:
        steps: list[tuple[Any, Instruction]] = []
        if old is not None and not self._same(old, new):
            steps.append((old, Instruction.DELETE_KEY_NO_PROPAGATE))
        return [*steps, (new, Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE)]

    def _inner_steps(self, change: Any, old: Any, new: Any) -> list[tuple[Any, Instruction]]:
        if new is None:
            if change.new is not None:
                self.context.drop("null foreign key")
            return [] if old is None else [(old, Instruction.DELETE_KEY_AND_PROPAGATE)]
        if old is None or self._same(old, new):
            return [(new, Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE)]
        return [
            (old, Instruction.DELETE_KEY_NO_PROPAGATE),
            (new, Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE),
        ]

    def _same(self, old: Any, new: Any) -> bool:
        return new is not None and self._foreign.serialize(old) == self._foreign.serialize(new)

    def _send(self, record: Record, foreign_key: Any, instruction: Instruction) -> None:
        new = record.value.new
        hashed = None if new is None else hash128(self._value.serialize(new))
        subscription = Subscription(hashed, instruction, record.key, self.context.partition)
        self.forward(Record(foreign_key, subscription, record.timestamp, record.headers))


class SubscriptionReceive(Processor):
    """Keeps the subscription, and passes on (foreign key, subscription)."""

    def __init__(self, store_name: str, keys: CombinedKeys) -> None:
        self._store_name = store_name
        self._keys = keys
        self._store: Any = None

    def init(self, context: Context) -> None:
        self._store = context.store(self._store_name)

    def process(self, record: Record) -> None:
        foreign_key, subscription = record.key, record.value
        if foreign_key is None:
            if subscription.instruction is not Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE:
                self.context.drop("null foreign key")
                return
        else:
            place = self._keys.key(foreign_key, subscription.primary_key)
            gone = subscription.instruction in (
                Instruction.DELETE_KEY_NO_PROPAGATE,
                Instruction.DELETE_KEY_AND_PROPAGATE,
            )
            self._store.put(place, None if gone else subscription, record.timestamp)
        self.forward(record)


class SubscriptionJoin(Processor):
    """Answers a subscription with the right row as it is now."""

    def __init__(self, getter: ValueGetter) -> None:
        self._getter = getter

    def init(self, context: Context) -> None:
        self._getter.init(context)

    def process(self, record: Record) -> None:
        subscription: Subscription = record.value
        instruction = subscription.instruction
        found = None if record.key is None else self._getter.get(record.key)
        if instruction is Instruction.DELETE_KEY_NO_PROPAGATE:
            return
        if instruction is Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE and found is None:
            return
        value = None if found is None or instruction is Instruction.DELETE_KEY_AND_PROPAGATE else found[0]
        timestamp = record.timestamp if found is None else max(record.timestamp, found[1])
        response = Response(subscription.hash, value, subscription.primary_partition)
        self.forward(Record(subscription.primary_key, response, timestamp, record.headers))


class ForeignTableJoin(Processor):
    """Tells all subscribers of a right row that it has changed."""

    def __init__(self, store_name: str, keys: CombinedKeys, versioned: bool) -> None:
        self._store_name = store_name
        self._keys = keys
        self._versioned = versioned
        self._store: Any = None

    def init(self, context: Context) -> None:
        self._store = context.store(self._store_name)

    def process(self, record: Record) -> None:
        if record.key is None:
            self.context.drop("null key")
            return
        if self._versioned and not record.value.is_latest:
            self.context.drop("out of order in a versioned table")
            return
        for _, (subscription, _) in self._store.prefix(self._keys.prefix(record.key)):
            response = Response(subscription.hash, record.value.new, subscription.primary_partition)
            self.forward(Record(subscription.primary_key, response, record.timestamp, record.headers))


class ResponseJoin(Processor):
    """Joins an answer with the left row, if it is still the one that asked."""

    def __init__(self, getter: ValueGetter, value: Serde, joiner: Callable[[Any, Any, Any], Any], left: bool) -> None:
        self._getter = getter
        self._value = value
        self._joiner = joiner
        self._left = left

    def init(self, context: Context) -> None:
        self._getter.init(context)

    def process(self, record: Record) -> None:
        response: Response = record.value
        found = self._getter.get(record.key)
        mine = None if found is None else found[0]
        if response.hash != (None if mine is None else hash128(self._value.serialize(mine))):
            self.context.drop("an answer that was overtaken")
            return
        joined = None
        if response.value is not None or (self._left and mine is not None):
            joined = self._joiner(record.key, mine, response.value)
        self.forward(record.with_value(joined))
