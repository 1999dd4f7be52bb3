"""Whether the target of a SparkSink has a batch, by the mark that the batch left there."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headwater.spark.sinks.files_by_batch import batch_name, is_visible
from headwater.spark.sinks.staging import Store, is_done

if TYPE_CHECKING:
    from headwater.spark.sinks.hadoop import Files


def is_written(
    files: "Files", form: str, options: Mapping[str, str], *, of_files: bool, query: str, batch: int
) -> bool:
    """Of a format without marks nobody knows: no, so that the batch comes again (at least once)."""
    if of_files:
        return is_visible(files, options["path"].rstrip("/"), batch_name(batch, query))
    store = _store(form.lower(), options)
    return store is not None and is_done(store.last_batch(query), batch)


def _store(form: str, options: Mapping[str, str]) -> Store | None:
    """Without columns, for nothing is written: so without keys, which are columns."""
    from pyspark.sql.types import StructType

    given = {name: value for name, value in options.items() if name.lower() != "keys"}
    if form == "headwater-sqlite":
        from headwater.spark.sinks.options import parse_sqlite_options
        from headwater.spark.sinks.sqlite import SqliteStore

        return SqliteStore(parse_sqlite_options(given, StructType([])))
    if form == "headwater-postgres":
        from headwater.spark.sinks.options import parse_postgres_options
        from headwater.spark.sinks.postgres import PostgresStore

        return PostgresStore(parse_postgres_options(given, StructType([])))
    return None
