"""Columns of records that have the id of their schema before them: what Avro, Protobuf and JSON have in common.

`FramedColumns` decodes a binary column, `ReaderColumns` into the columns of a reader's schema, and `ColumnSerializer`
encodes typed columns. Each owns what it has compiled; for one thread at a time.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.client.schema_registry.client import RegisteredSchema, SchemaRegistryClient
from headwater.client.schema_registry.settings import registry_for
from headwater.schemas import ParsedSchema, SchemaType, StoredSchema
from headwater.schemas.columns import frame_ids
from headwater.schemas.model import DataError

if TYPE_CHECKING:
    import pyarrow as pa

PREFIX_BYTES: Final = 5
_Name = TypeVar("_Name", int, bytes)
_Schema = TypeVar("_Schema", bound=ParsedSchema)
Encode = Callable[["pa.Array", bytes], "pa.Array"]


class FramedColumns:
    """A function of a binary column, for `poll_arrow`; a row that cannot be decoded is a KafkaError. Rows go by the ids
    of their schemas.
    """

    format_name = ""

    def __call__(self, column: "pa.Array") -> "pa.Array":
        import pyarrow as pa
        import pyarrow.compute as pc

        ids = frame_ids(column)
        found = [each for each in pc.unique(ids).to_pylist() if each is not None]
        if -1 in found:
            row = pc.index(ids, -1).as_py()
            raise self.undecodable(f"row {row} does not begin with the id of a schema")
        if not found:
            return pa.nulls(len(column), self.known_type() or pa.null())
        return in_groups(column, ids, found, self.decode)

    def known_type(self) -> "pa.DataType | None":
        """The type of the columns, if it is known before a record has come."""
        raise NotImplementedError

    def decode(self, schema_id: int, column: "pa.Array") -> "pa.Array":
        """Rows of one schema, and nulls."""
        raise NotImplementedError

    def undecodable(self, why: str) -> KafkaError:
        return KafkaError(ErrorCode.INVALID_RECORD, f"A column cannot be decoded as {self.format_name}: {why}")


def in_groups(
    column: "pa.Array", names: "pa.Array", found: list[_Name], decode: "Callable[[_Name, pa.Array], pa.Array]"
) -> "pa.Array":
    """Rows with the same name together, and back in their order. Nulls go with the first."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if len(found) == 1:
        return decode(found[0], column)
    order, parts = [], []
    for number, name in enumerate(found):
        places = pc.indices_nonzero(pc.fill_null(pc.equal(names, name), number == 0))
        order.append(places)
        parts.append(decode(name, column.take(places)))
    back = pc.sort_indices(pa.concat_arrays(order))
    return pa.concat_arrays(parts).take(back)


class ReaderColumns(FramedColumns):
    """Records of several versions come out in one: the schema that was given, the subject's latest when it is first
    needed, or the first record's.
    """

    schema_type: SchemaType

    def __init__(
        self, registry: SchemaRegistryClient | str | Mapping[str, Any], reader: StoredSchema | None, subject: str
    ) -> None:
        self.registry = registry_for(registry)
        self._reader = reader
        self._subject = subject

    def known_reader(self) -> StoredSchema | None:
        if self._reader is None and self._subject:
            self._reader = self.registry.version(self._subject).schema
        return self._reader

    def reader_beside(self, writer: StoredSchema) -> StoredSchema:
        """That of the first record, from then on, if nothing else is known."""
        reader = self.known_reader()
        if reader is None:
            reader = self._reader = writer
        return reader

    def written_with(self, schema_id: int) -> StoredSchema:
        writer = self.registry.schema_by_id(schema_id, self._subject or None)
        if writer.schema_type is not self.schema_type:
            raise self.undecodable(f"the schema {schema_id} is {writer.schema_type}, not {self.format_name}")
        return writer

    def parsed_as(self, kind: type[_Schema], schema: StoredSchema) -> _Schema:
        parsed = self.registry.parsed(schema)
        if not isinstance(parsed, kind):
            raise self.undecodable(f"the reader's schema is {parsed.schema_type}, not {self.format_name}")
        return parsed


class ColumnSerializer:
    """A function of a column, for `send_arrow`. Each value has its schema's id before it; null stays null.

    The schema is registered under the subject when the first column comes; without a schema, the subject's latest
    version is written.
    """

    format_name = ""

    def __init__(
        self,
        registry: SchemaRegistryClient | str | Mapping[str, Any],
        given: StoredSchema | None,
        subject: str,
        *,
        auto_register: bool,
        normalize: bool,
    ) -> None:
        self.registry = registry_for(registry)
        self._given = given
        self._subject = subject
        self._auto_register = auto_register
        self._normalize = normalize
        self._compiled: tuple[Encode, bytes] | None = None

    def __call__(self, column: "pa.Array") -> "pa.Array":
        if self._compiled is None:
            self._compiled = self.compile(self._registered())
        encode, prefix = self._compiled
        try:
            return encode(column, prefix)
        except DataError as error:
            raise self.unencodable(str(error)) from error

    def compile(self, registered: RegisteredSchema) -> tuple[Encode, bytes]:
        """How a column is encoded, and what stands before each value."""
        raise NotImplementedError

    def _registered(self) -> RegisteredSchema:
        if self._given is None:
            return self.registry.version(self._subject)
        ask = self.registry.register if self._auto_register else self.registry.lookup
        return ask(self._subject, self._given, normalize=self._normalize)

    def parsed_as(self, kind: type[_Schema], schema: StoredSchema) -> _Schema:
        parsed = self.registry.parsed(schema)
        if not isinstance(parsed, kind):
            raise self.unencodable(f"the schema of {self._subject!r} is {parsed.schema_type}")
        return parsed

    def unencodable(self, why: str, hint: str = "") -> UserError:
        return UserError(f"A column cannot be encoded as {self.format_name}", why, hint)
