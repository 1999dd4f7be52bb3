"""`format("headwater")`: which reader or writer it is.

Spark makes it anew in many Python processes, one for each commit of a batch among them. So what reads and what writes
is imported where it is asked for.
"""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, DataSourceWriter
from pyspark.sql.types import DataType, StructField, StructType

from headwater.base.errors import UserError

if TYPE_CHECKING:
    from headwater.spark.data_source_readers import BatchReader, StreamReader
    from headwater.spark.serdes.source_plan import TypedColumn
    from headwater.spark.writer.options import SinkOptions


class HeadwaterDataSource(DataSource):
    """Spark keeps it as it is after `schema`, for all readers of the frame: so they read with the schemas that were
    planned then.
    """

    _typed: "tuple[TypedColumn, ...] | None" = None

    @classmethod
    def name(cls) -> str:
        return "headwater"

    def schema(self) -> StructType:
        from headwater.spark.options import include_headers
        from headwater.spark.schema import source_schema

        types: dict[str, DataType] = {each.format.column: each.type for each in self._typed_columns()}
        return source_schema(headers=include_headers(self.options), typed=types)

    def _typed_columns(self) -> "tuple[TypedColumn, ...]":
        from headwater.spark.options import source_serdes

        if self._typed is None:
            serdes = source_serdes(self.options)
            self._typed = ()
            if serdes is not None:
                from headwater.spark.serdes.registries import cached_registry
                from headwater.spark.serdes.source_plan import plan_source

                self._typed = plan_source(serdes, cached_registry(serdes.registry) if serdes.registry else None)
        return self._typed

    def reader(self, schema: StructType) -> "BatchReader":
        from headwater.spark.data_source_readers import BatchReader
        from headwater.spark.options import parse_source_options

        options = parse_source_options(self.options, streaming=False)
        self._refuse_other_columns(schema)
        return BatchReader(options, schema, self._typed_columns())

    def streamReader(self, schema: StructType) -> "StreamReader":  # noqa: N802
        from headwater.spark.data_source_readers import StreamReader
        from headwater.spark.options import parse_source_options

        options = parse_source_options(self.options, streaming=True)
        self._refuse_other_columns(schema)
        return StreamReader(options, schema, self._typed_columns())

    def _refuse_other_columns(self, wanted: StructType) -> None:
        """Where somebody has given a schema, Spark takes it for the columns, and does not ask for them."""
        there = {each.name: each for each in self.schema()}
        for each in wanted:
            found = there.get(each.name)
            if found is None or (found.dataType, found.nullable) != (each.dataType, each.nullable):
                what = (
                    "there is no such column" if found is None else f"it is {described(found)}, not {described(each)}"
                )
                raise UserError(
                    f"The column {each.name!r} of schema(...) cannot be read",
                    what,
                    f"Leave schema(...) out, and select or cast what you want of: {', '.join(there)}",
                )

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from headwater.spark.writer.data_source_writers import BatchWriter
        from headwater.spark.writer.options import parse_sink_options

        if overwrite:
            raise UserError("A topic cannot be overwritten", "it is a log", 'Use mode("append")')
        return BatchWriter(with_encodings(parse_sink_options(self.options, schema.names, streaming=False), schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002, N802
        from headwater.spark.writer.data_source_writers import AtLeastOnceWriter, ExactlyOnceWriter
        from headwater.spark.writer.options import EXACTLY_ONCE, parse_sink_options

        options = with_encodings(parse_sink_options(self.options, schema.names, streaming=True), schema)
        if options.delivery != EXACTLY_ONCE:
            return AtLeastOnceWriter(options)
        ensure_sink_topics(options)
        return ExactlyOnceWriter(options)


def described(field: StructField) -> str:
    return field.dataType.simpleString() + ("" if field.nullable else " not null")


def with_encodings(options: "SinkOptions", schema: StructType) -> "SinkOptions":
    """The schemas of typed columns are registered here, on the driver, before anything is written. What no record takes
    is refused.
    """
    from headwater.spark.writer.options import check_types

    check_types(options, schema)
    if options.serdes is None:
        return options
    from dataclasses import replace

    from headwater.spark.serdes.encoding import plan_sink
    from headwater.spark.serdes.registries import cached_registry

    registry = cached_registry(options.serdes.registry) if options.serdes.registry else None
    return replace(options, encodings=plan_sink(options.serdes, schema, registry))


_ensured: set[str] = set()  # clusters that have the sink's topics; Spark keeps this process for the next batch


def ensure_sink_topics(options: "SinkOptions") -> None:
    from headwater.spark.admin import open_admin, with_retries
    from headwater.spark.writer.decision_topic import ensure_topics

    if options.bootstrap_servers not in _ensured:
        with open_admin(options.bootstrap_servers, options.client) as admin:
            with_retries(admin, lambda: ensure_topics(admin))
        _ensured.add(options.bootstrap_servers)
