"""Datagen: random records by a template, for demos and load. The same seed makes the same records, also across
restarts.

A template is a JSON object of fields: {"id": {"type": "sequence"}, "name": {"type": "choice", "of": ["a", "b"]},
"price": {"type": "double", "min": 1, "max": 9}, "at": {"type": "timestamp"}, "text": {"type": "string", "length": 8}}.
Types: sequence, int, long, double, boolean, string, choice, uuid, timestamp.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping
from random import Random
from string import ascii_lowercase
from typing import Any, ClassVar, Final, NamedTuple
from uuid import UUID

from headwater.base.config.validators import AtLeast, ConfigValueError, OneOf
from headwater.connect.api import SourceConnector, SourceOffsets, SourceTask
from headwater.connect.config.definition import ConfigDef, ConfigValue
from headwater.connect.config.keys import HIGH, LOW, MEDIUM, REQUIRED, NonEmptyText, long, text, whole
from headwater.connect.data import schema as s
from headwater.connect.data.logical import millis_to_timestamp
from headwater.connect.data.runs import SourceRun
from headwater.connect.data.schema import Schema, struct
from headwater.connect.data.struct import Struct
from headwater.connect.errors import ConfigError, ConnectError

QUICKSTARTS: Final[dict[str, dict[str, Any]]] = {
    "users": {
        "userid": {"type": "choice", "of": [f"User_{number}" for number in range(1, 10)]},
        "regionid": {"type": "choice", "of": [f"Region_{number}" for number in range(1, 10)]},
        "gender": {"type": "choice", "of": ["FEMALE", "MALE", "OTHER"]},
        "registertime": {"type": "long", "min": 1_487_715_775_521, "max": 1_519_273_364_600},
    },
    "pageviews": {
        "viewtime": {"type": "sequence", "start": 1, "step": 10},
        "userid": {"type": "choice", "of": [f"User_{number}" for number in range(1, 10)]},
        "pageid": {"type": "choice", "of": [f"Page_{number}" for number in range(10, 100)]},
    },
    "orders": {
        "orderid": {"type": "sequence"},
        "itemid": {"type": "choice", "of": [f"Item_{number}" for number in range(1, 200)]},
        "orderunits": {"type": "double", "min": 0.1, "max": 10},
        "ordertime": {"type": "timestamp"},
    },
}
_TYPES: Final = ("sequence", "int", "long", "double", "boolean", "string", "choice", "uuid", "timestamp")
_FAR: Final = float("inf")
_KEYS: Final = {"users": "userid", "pageviews": "userid", "orders": "orderid"}


class Moment(NamedTuple):
    """What a field may depend on, beside chance."""

    dice: Random
    number: int
    now_ms: int


Maker = Callable[[Moment], Any]


def _number(spec: Mapping[str, Any], low: float, high: float) -> tuple[float, float]:
    least, most = spec.get("min", low), spec.get("max", high)
    numbers = all(isinstance(each, int | float) and -_FAR < each < _FAR for each in (least, most))
    if not numbers or least > most:
        raise ValueError("min and max are numbers, min not above max")
    return least, most


def _whole(spec: Mapping[str, Any], name: str, default: int) -> int:
    found = spec.get(name, default)
    if not isinstance(found, int) or isinstance(found, bool):
        raise ValueError(f"{name} is a whole number")
    return found


def _field(spec: object) -> tuple[Schema, Maker]:
    """Raises ValueError, with a sentence."""
    if not isinstance(spec, dict):
        raise ValueError('it is not an object with a type, such as {"type": "int"}')
    match spec.get("type"):
        case "sequence":
            start, step = _whole(spec, "start", 0), _whole(spec, "step", 1)
            return s.INT64, lambda moment: start + step * moment.number
        case "int" | "long" as kind:
            least, most = _number(spec, 0, 1_000_000)
            limit = 1 << (31 if kind == "int" else 63)
            if least < -limit or most >= limit:
                raise ValueError(f"min and max of a {kind} are within its range")
            return (s.INT32 if kind == "int" else s.INT64), lambda moment: moment.dice.randint(int(least), int(most))
        case "double":
            least, most = _number(spec, 0, 1)
            return s.FLOAT64, lambda moment: moment.dice.uniform(least, most)
        case "boolean":
            return s.BOOLEAN, lambda moment: moment.dice.random() < 0.5
        case "string":
            length = _whole(spec, "length", 10)
            return s.STRING, lambda moment: "".join(moment.dice.choices(ascii_lowercase, k=length))
        case "choice":
            of = spec.get("of")
            if not isinstance(of, list) or not of or any(not isinstance(each, str) for each in of):
                raise ValueError("`of` is a list of texts")
            return s.STRING, lambda moment: moment.dice.choice(of)
        case "uuid":
            return s.STRING, lambda moment: str(UUID(int=moment.dice.getrandbits(128), version=4))
        case "timestamp":
            return s.TIMESTAMP_SCHEMA, lambda moment: millis_to_timestamp(moment.now_ms)
    raise ValueError(f"the type {spec.get('type')!r} is not one of {', '.join(_TYPES)}")


class Template:
    def __init__(self, fields: Mapping[str, Any], name: str) -> None:
        """Raises ValueError, with a sentence that names the field."""
        made = {}
        for field, spec in fields.items():
            try:
                made[field] = _field(spec)
            except ValueError as error:
                raise ValueError(f"the field {field!r}: {error}") from None
        self.schema = struct([(field, schema) for field, (schema, _) in made.items()], name=name)
        self._makers = [maker for _, maker in made.values()]

    def value(self, moment: Moment) -> Struct:
        return Struct.of(self.schema, [maker(moment) for maker in self._makers])


def _own_template(given: str) -> Template:
    """Raises ValueError, with a sentence."""
    try:
        fields = json.loads(given)
    except ValueError as error:
        raise ValueError(f"it is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise ValueError("it is not a JSON object of fields")
    return Template(fields, "datagen.record")


def template_of(config: Mapping[str, Any]) -> Template:
    if (config["quickstart"] is None) == (config["template"] is None):
        raise ConfigError("Exactly one of quickstart and template is needed", name="quickstart")
    if config["quickstart"] is not None:
        return Template(QUICKSTARTS[config["quickstart"]], f"datagen.{config['quickstart']}")
    try:
        return _own_template(config["template"])
    except ValueError as error:
        raise ConfigError.of("template", config["template"], str(error)) from None


class DatagenTask(SourceTask):
    def __init__(self) -> None:
        self._stop = threading.Event()

    def start(self, props: Mapping[str, str]) -> None:
        config = DatagenConnector.config_def.parse(props)
        self._topic, self._limit, self._batch_size = config["topic"], config["iterations"], config["batch.size"]
        self._interval_s = config["max.interval.ms"] / 1000
        self._task, self._seed = props.get("task.id", "0"), config["random.seed"]
        self._template = template_of(config)
        self._key = config["key.field"] or _KEYS.get(config["quickstart"] or "")
        self._partition = {"task.id": self._task}
        offset = self.context.offset_reader.offset(self._partition)
        self._next = int(offset["sequence"]) if offset is not None else 0

    def poll(self) -> SourceRun | None:
        if 0 <= self._limit <= self._next:
            self._stop.wait(0.2)
            return None
        if self._interval_s:
            pause = Random(f"{self._seed}/{self._task}/{self._next}/pause").uniform(0, self._interval_s)
            if self._stop.wait(pause):
                return None
        count = 1 if self._interval_s else self._batch_size
        if self._limit >= 0:
            count = min(count, self._limit - self._next)
        return self._run(count)

    def _run(self, count: int) -> SourceRun:
        now_ms, first = time.time_ns() // 1_000_000, self._next
        self._next += count
        seed, make = f"{self._seed}/{self._task}/", self._template.value
        values = [make(Moment(Random(f"{seed}{number}"), number, now_ms)) for number in range(first, self._next)]
        field = self._template.schema.field(self._key) if self._key else None
        return SourceRun(
            self._topic,
            values,
            self._template.schema,
            keys=None if field is None else [value.get(field.name) for value in values],
            key_schema=None if field is None else field.schema,
            timestamps_ms=now_ms,
            source_partition=self._partition,
            offset_at=lambda index: {"sequence": first + index + 1},
        )

    def stop(self) -> None:
        self._stop.set()


class _Json:
    def check(self, name: str, value: object) -> None:
        if isinstance(value, str):
            try:
                _own_template(value)
            except ValueError as error:
                raise ConfigValueError(name, value, str(error)) from None

    def __str__(self) -> str:
        return "a JSON object of fields"


class DatagenConnector(SourceConnector):
    doc = "Random records by a template, for demos and load."
    config_def: ClassVar[ConfigDef] = ConfigDef(
        text("topic", REQUIRED, HIGH, "The topic that records go to.", NonEmptyText()),
        text("quickstart", None, HIGH, "A template that is there already.", OneOf(*QUICKSTARTS)),
        text("template", None, HIGH, "A template of your own: a JSON object of fields and their types.", _Json()),
        text("key.field", None, MEDIUM, "The field that is the key too; that of a quickstart if none is given."),
        long(
            "max.interval.ms",
            500,
            MEDIUM,
            "Records come after a random pause of up to this; 0: as fast as it goes.",
            AtLeast(0),
        ),
        long("iterations", -1, MEDIUM, "How many records each task makes in all; -1: no end."),
        long("random.seed", 1, LOW, "The same seed makes the same records."),
        whole("batch.size", 500, LOW, "Records per poll where max.interval.ms is 0.", AtLeast(1)),
    )
    task_class = DatagenTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{**self.props, "task.id": str(number)} for number in range(max_tasks)]

    def alter_offsets(self, props: Mapping[str, str], offsets: SourceOffsets) -> bool:
        del props
        for partition, offset in offsets:
            if offset is None:  # of whatever partition: what nobody reads can be taken away
                continue
            number = offset.get("sequence")
            good = isinstance(number, int) and not isinstance(number, bool) and number >= 0
            if not good or set(partition) != {"task.id"} or not isinstance(partition["task.id"], str):
                raise ConnectError('Offsets of Datagen are {"sequence": n} of the partition {"task.id": "0"}')
        return True

    def validate(self, props: Mapping[str, str], found: dict[str, ConfigValue]) -> None:
        del props
        if (found["quickstart"].value is None) == (found["template"].value is None):
            found["quickstart"].errors.append("Exactly one of quickstart and template is needed")
        elif not any(each.errors for each in found.values()):
            fields = template_of({name: each.value for name, each in found.items()}).schema.fields
            key, names = found["key.field"], [field.name for field in fields]
            if key.value and key.value not in names:
                key.errors.append(f"key.field: there is no field {key.value!r}; there are {', '.join(names)}")
