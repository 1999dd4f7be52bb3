"""What transforms share: which part of the record they change, and the checks that Connect makes of it."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from headwater._version import VERSION
from headwater.connect.config.definition import ConfigDef
from headwater.connect.data.record import ConnectRecord
from headwater.connect.data.runs import ValueColumns
from headwater.connect.data.schema import Field, Schema
from headwater.connect.data.struct import Struct
from headwater.connect.data.validation import validate
from headwater.connect.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

Part = Literal["key", "value"]
SCHEMAS_CACHED_MAX = 16


class Transformation:
    """`configure` once, then `apply` per record; None drops it. One thread at a time.

    `is_pure`: what becomes of a record follows from the record alone, and nothing else is done. Such transforms go over
    many records at once, and again over those records one by one where one of them is at fault.
    """

    is_pure: ClassVar[bool] = False

    config_def: ClassVar[ConfigDef] = ConfigDef()
    version: ClassVar[str] = VERSION
    doc: ClassVar[str] = ""

    def configure(self, props: Mapping[str, str | None]) -> None:
        self.setup(self.config_def.parse(props))

    def setup(self, config: Mapping[str, Any]) -> None:
        """The parsed config."""

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        raise NotImplementedError

    def apply_columns(self, values: ValueColumns) -> ValueColumns | None:
        """What `apply` does, to all records of a run at once, where that changes their values alone. None: not these,
        which go record by record. It may raise for the same reason.
        """
        del values
        return None

    def close(self) -> None:
        """Nothing is held, as it stands."""


def is_pure(thing: object) -> bool:
    """Whether its own class says so: one that is derived may do more than the one it comes from."""
    return bool(type(thing).__dict__.get("is_pure", False))


class PartTransformation(Transformation):
    """Works on the key (`Name$Key`) or on the value (`Name$Value`)."""

    part: Part = "value"

    def __init__(self) -> None:
        self._schemas: dict[Schema, Schema] = {}
        self._carried: dict[Schema, Carried] = {}

    def of(self, record: ConnectRecord) -> tuple[Schema | None, Any]:
        return (record.key_schema, record.key) if self.part == "key" else (record.value_schema, record.value)

    def put(self, record: ConnectRecord, schema: Schema | None, value: Any, **more: Any) -> ConnectRecord:
        if self.part == "key":
            return record.replaced(key_schema=schema, key=value, **more)
        return record.replaced(value_schema=schema, value=value, **more)

    def carried(self, schema: Schema, made: "Carried") -> "Carried":
        if len(self._carried) >= SCHEMAS_CACHED_MAX:
            self._carried.clear()
        self._carried[schema] = made
        return made

    def remember(self, schema: Schema, changed: Schema) -> Schema:
        if len(self._schemas) >= SCHEMAS_CACHED_MAX:
            self._schemas.clear()
        self._schemas[schema] = changed
        return changed


class Carried:
    """The values that structs of a changed schema take over from those before, found by position. They fit their fields
    there, so only nulls are looked at: they become the default, or are refused where the new field is required.
    """

    def __init__(self, old: Schema, changed: Schema, names: Iterable[str], *, with_default: bool) -> None:
        """`names`: of the old fields whose values the first ones of the changed schema get."""
        self.schema = changed
        fields = []
        for name in names:
            field = old.field(name)
            if field is None:
                raise DataError(f"{name} is not a valid field name")
            fields.append(field)
        self._positions = [field.position for field in fields]
        self._is_whole = self._positions == list(range(len(old.fields)))
        self._empty = [None] * (len(changed.fields) - len(fields))
        self._nulls = [
            (index, default, changed.fields[index])
            for index, field in enumerate(fields)
            for default in [field.schema.default if with_default else None]
            if default is not None or not changed.fields[index].schema.optional
        ]

    def columns(self, old: "list[pa.Array]") -> "list[pa.Array] | None":
        """The same of columns, without those of new fields. None: there are nulls to look at."""
        found = [old[at] for at in self._positions]
        return None if any(found[index].null_count for index, _, _ in self._nulls) else found

    def values(self, old: Struct) -> list[Any]:
        """A list of its own, with a null for each field that is new."""
        there = old.values_without_defaults()
        found = [*there, *self._empty] if self._is_whole else [*(there[at] for at in self._positions), *self._empty]
        for index, default, field in self._nulls:
            if found[index] is None:
                if default is None:
                    validate(field.schema, None, f'field: "{field.name}"')
                found[index] = default
        return found


def require_map(value: Any, purpose: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DataError(f"Only Map objects supported in absence of schema for [{purpose}], found: {_kind(value)}")
    return value


def require_struct(value: Any, purpose: str) -> Struct:
    if not isinstance(value, Struct):
        raise DataError(f"Only Struct objects supported for [{purpose}], found: {_kind(value)}")
    return value


def _kind(value: Any) -> str:
    return "null" if value is None else type(value).__name__


def field_value(value: Struct, field: Field, with_default: bool) -> Any:
    return value.get(field.name) if with_default else value.get_without_default(field.name)


def basics(schema: Schema) -> dict[str, Any]:
    """What a changed schema keeps: name, version, doc and parameters; not whether it is optional, nor its default."""
    return {"name": schema.name, "version": schema.version, "doc": schema.doc, "parameters": schema.parameters}
