"""A struct: values in the order of its schema's fields. A field that was never set is null, or its default."""

from typing import Any

from headwater.connect.data.schema import Field, Schema, StructValue, Type
from headwater.connect.data.validation import validate
from headwater.connect.errors import DataError


class Struct(StructValue):
    __slots__ = ("_values",)

    def __init__(self, schema: Schema, values: dict[str, Any] | None = None) -> None:
        if schema.type is not Type.STRUCT:
            raise DataError(f"Not a struct schema: {schema}")
        self.schema = schema
        self._values: list[Any] = [None] * len(schema.fields)
        for name, value in (values or {}).items():
            self.put(name, value)

    @classmethod
    def of(cls, schema: Schema, values: list[Any]) -> "Struct":
        """For who has made the values after the schema: one per field, in their order, and not checked."""
        made = cls.__new__(cls)
        made.schema, made._values = schema, values
        return made

    def under(self, schema: Schema) -> "Struct":
        """The same values under another schema of the same fields."""
        return Struct.of(schema, self._values)

    def get(self, name: str) -> Any:
        """The value, or the default of a field that is null."""
        field = self._field(name)
        value = self._values[field.position]
        return field.schema.default if value is None else value

    __getitem__ = get

    def get_without_default(self, name: str) -> Any:
        return self._values[self._field(name).position]

    def values_without_defaults(self) -> list[Any]:
        """In the order of the schema's fields; not to be changed."""
        return self._values

    def put(self, name: str, value: Any) -> "Struct":
        field = self._field(name)
        validate(field.schema, value, f'field: "{field.name}"')
        self._values[field.position] = value
        return self

    __setitem__ = put

    def validate(self) -> None:
        for field, value in zip(self.schema.fields, self._values, strict=True):
            if value is None and (field.schema.optional or field.schema.default is not None):
                continue
            validate(field.schema, value, f'field: "{field.name}"')

    def _field(self, name: str) -> Field:
        field = self.schema.field(name)
        if field is None:
            raise DataError(f"{name} is not a valid field name")
        return field

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Struct) and self.schema == other.schema and self._values == other._values

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        pairs = zip(self.schema.fields, self._values, strict=True)
        return f"Struct{{{','.join(f'{f.name}={value}' for f, value in pairs if value is not None)}}}"

    def as_dict(self) -> dict[str, Any]:
        return {field.name: self.get(field.name) for field in self.schema.fields}
