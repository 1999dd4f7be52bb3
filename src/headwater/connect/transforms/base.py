"""What transforms share: which part of the record they change, and the checks that Connect makes of it."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from headwater._version import VERSION
from headwater.connect.config.definition import ConfigDef
from headwater.connect.data.record import ConnectRecord
from headwater.connect.data.schema import Field, Schema
from headwater.connect.data.struct import Struct
from headwater.connect.errors import DataError

Part = Literal["key", "value"]
SCHEMAS_CACHED_MAX = 16


class Transformation:
    """`configure` once, then `apply` per record; None drops it. One thread at a time."""

    config_def: ClassVar[ConfigDef] = ConfigDef()
    version: ClassVar[str] = VERSION
    doc: ClassVar[str] = ""

    def configure(self, props: Mapping[str, str | None]) -> None:
        self.setup(self.config_def.parse(props))

    def setup(self, config: Mapping[str, Any]) -> None:
        """The parsed config."""

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        raise NotImplementedError

    def close(self) -> None:
        """Nothing is held, as it stands."""


class PartTransformation(Transformation):
    """Works on the key (`Name$Key`) or on the value (`Name$Value`)."""

    part: Part = "value"

    def __init__(self) -> None:
        self._schemas: dict[Schema, Schema] = {}

    def of(self, record: ConnectRecord) -> tuple[Schema | None, Any]:
        return (record.key_schema, record.key) if self.part == "key" else (record.value_schema, record.value)

    def put(self, record: ConnectRecord, schema: Schema | None, value: Any, **more: Any) -> ConnectRecord:
        if self.part == "key":
            return record.replaced(key_schema=schema, key=value, **more)
        return record.replaced(value_schema=schema, value=value, **more)

    def remember(self, schema: Schema, changed: Schema) -> Schema:
        if len(self._schemas) >= SCHEMAS_CACHED_MAX:
            self._schemas.clear()
        self._schemas[schema] = changed
        return changed


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
