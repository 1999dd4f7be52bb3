"""The options of the database sinks, and the columns that the rows have. Pure; wrong ones say what is wrong."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from headwater.base.errors import UserError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

FAIL: Final = "fail"
STORE: Final = "store"
_BAD_ROWS: Final = (FAIL, STORE)
_COMMON: Final = ("table", "keys", "badrows", "sink")
_SPARKS: Final = ("checkpointlocation", "queryname")  # Spark leaves these among the options
_NESTED: Final = "nested"


@dataclass(frozen=True, slots=True)
class Column:
    """`kind` is Spark's name of the type without its arguments; `arguments` those of a decimal."""

    name: str
    kind: str
    arguments: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """`place`: the file of SQLite, or the connection string of PostgreSQL. `keys`: rows replace rows with equal
    keys.
    """

    place: str
    table: str
    columns: tuple[Column, ...]
    keys: tuple[str, ...] = ()
    bad_rows: str = FAIL
    sink: str = ""  # what the progress is kept under
    patience_s: float = 60.0

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]


def parse_sqlite_options(options: Mapping[str, str], schema: "StructType") -> SinkOptions:
    given = _given(options, ("path",))
    path = _needed(given, "path", "the file of the database", "/data/results.db")
    if "://" in path:
        raise UserError(f"{path} is not a local path", "SQLite keeps its database in a local file", "Name a local file")
    return _common(given, schema, path)


def parse_postgres_options(options: Mapping[str, str], schema: "StructType") -> SinkOptions:
    given = _given(options, ("url", "patienceseconds"))
    url = _needed(given, "url", "where the database is", "postgresql://user@host/database")
    text = given.get("patienceseconds", "60")
    try:
        patience_s = float(text)
    except ValueError:
        patience_s = -1.0
    if not 0 <= patience_s < float("inf"):
        raise UserError(f"patienceSeconds cannot be {text!r}", "it is not a number of seconds", "60 is the default")
    return replace(_common(given, schema, url), patience_s=patience_s)


def _given(options: Mapping[str, str], more: tuple[str, ...]) -> dict[str, str]:
    given = {name.lower(): value for name, value in options.items() if name.lower() not in _SPARKS}
    unknown = sorted(given.keys() - {*_COMMON, *more})
    if unknown:
        known = ", ".join(sorted((*more, *_COMMON)))
        raise UserError(f"The option {unknown[0]!r} is not known", "it may be a slip", f"There are: {known}")
    return given


def _common(given: Mapping[str, str], schema: "StructType", place: str) -> SinkOptions:
    table = _needed(given, "table", "the table to write to", "page_views")
    columns = columns_of(schema)
    keys = tuple(key.strip() for key in given.get("keys", "").split(",") if key.strip())
    for key in keys:
        if key not in [column.name for column in columns]:
            raise UserError(f"The key {key!r} is no column", "rows are told apart by it", "Name columns of the frame")
    bad_rows = given.get("badrows", FAIL)
    if bad_rows not in _BAD_ROWS:
        raise UserError(f"badRows cannot be {bad_rows!r}", "", f"It is one of: {', '.join(_BAD_ROWS)}")
    return SinkOptions(place, table, columns, keys, bad_rows, given.get("sink", table))


def _needed(given: Mapping[str, str], name: str, what: str, example: str) -> str:
    text = given.get(name, "").strip()
    if not text:
        raise UserError(f"The option {name} is missing", f"it says {what}", f'Add .option("{name}", "{example}")')
    return text


def columns_of(schema: "StructType") -> tuple[Column, ...]:
    columns = tuple(_column(field.name, field.dataType) for field in schema.fields)
    seen: set[str] = set()
    for column in columns:
        if column.name.lower() in seen:
            raise UserError(
                f"Two columns are called {column.name!r}", "a table cannot have both", "Rename one of them with alias"
            )
        seen.add(column.name.lower())
        if "\0" in column.name:
            raise UserError(f"A column is called {column.name!r}", "no database takes that name", "Rename it")
    return columns


def _column(name: str, kind: "DataType") -> Column:
    from pyspark.sql.types import DecimalType

    if isinstance(kind, DecimalType):
        return Column(name, "decimal", (kind.precision, kind.scale))
    text = kind.typeName()
    return Column(name, _NESTED if text in ("array", "map", "struct", "variant") else text)


def quoted(name: str) -> str:
    """An identifier for SQL; a dot in a table's name parts schema and table."""
    return '"' + name.replace('"', '""') + '"'


def quoted_table(name: str) -> str:
    return ".".join(quoted(part) for part in name.split("."))


def on_conflict(options: SinkOptions) -> str:
    """What PostgreSQL and SQLite are told about a row whose key is there already: nothing, without keys."""
    if not options.keys:
        return ""
    keys = ", ".join(map(quoted, options.keys))
    others = [quoted(name) for name in options.names if name not in options.keys]
    if not others:
        return f" ON CONFLICT ({keys}) DO NOTHING"
    return f" ON CONFLICT ({keys}) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in others)}"
