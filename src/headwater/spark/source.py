"""`format("headwater")`: which reader or writer it is.

Spark makes it anew in many Python processes, one for each commit of a batch among them. So what reads and what writes is
imported where it is asked for.
"""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, DataSourceWriter
from pyspark.sql.types import StructType

from headwater.base.errors import UserError

if TYPE_CHECKING:
    from headwater.spark.readers import BatchReader, StreamReader
    from headwater.spark.writer.options import SinkOptions


class HeadwaterDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "headwater"

    def schema(self) -> StructType:
        from headwater.spark.options import include_headers
        from headwater.spark.schema import source_schema

        return source_schema(headers=include_headers(self.options))

    def reader(self, schema: StructType) -> "BatchReader":
        from headwater.spark.options import parse_source_options
        from headwater.spark.readers import BatchReader

        return BatchReader(parse_source_options(self.options, streaming=False), schema)

    def streamReader(self, schema: StructType) -> "StreamReader":  # noqa: N802
        from headwater.spark.options import parse_source_options
        from headwater.spark.readers import StreamReader

        return StreamReader(parse_source_options(self.options, streaming=True), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from headwater.spark.writer.options import parse_sink_options
        from headwater.spark.writer.stream import BatchWriter

        if overwrite:
            raise UserError("A topic cannot be overwritten", "it is a log", 'Use mode("append")')
        return BatchWriter(parse_sink_options(self.options, schema.names, streaming=False))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002, N802
        from headwater.spark.writer.options import EXACTLY_ONCE, parse_sink_options
        from headwater.spark.writer.stream import AtLeastOnceWriter, ExactlyOnceWriter

        options = parse_sink_options(self.options, schema.names, streaming=True)
        if options.delivery != EXACTLY_ONCE:
            return AtLeastOnceWriter(options)
        ensure_sink_topics(options)
        return ExactlyOnceWriter(options)


_ensured: set[str] = set()  # clusters that have the sink's topics; Spark keeps this process for the next batch


def ensure_sink_topics(options: "SinkOptions") -> None:
    from headwater.spark.admin import open_admin, patiently
    from headwater.spark.writer.decisions import ensure_topics

    if options.bootstrap_servers not in _ensured:
        with open_admin(options.bootstrap_servers, options.client) as admin:
            patiently(admin, lambda: ensure_topics(admin))
        _ensured.add(options.bootstrap_servers)
