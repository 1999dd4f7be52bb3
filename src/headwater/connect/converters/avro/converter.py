"""AvroConverter: records in Avro with the id of their schema in a registry, as Confluent's converter writes and reads
them.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from headwater.base.config.validators import AtLeast
from headwater.connect.config.definition import ConfigDef
from headwater.connect.config.keys import LOW, flag, whole
from headwater.connect.converters.avro.columns import column_reader
from headwater.connect.converters.avro.from_avro import connect_schema, connect_value
from headwater.connect.converters.avro.names import AvroOptions
from headwater.connect.converters.avro.to_avro import avro_schema, avro_value
from headwater.connect.converters.registry import REGISTRY_DEF, Reading, RegistryConverter
from headwater.connect.data.schema import Schema
from headwater.schemas import ParsedSchema, SchemaType, StoredSchema, parse
from headwater.schemas.avro import AvroSchema
from headwater.schemas.avro.decoding import compile_reader
from headwater.schemas.avro.encoding import compile_writer
from headwater.schemas.json_text import compact_json


class AvroConverter(RegistryConverter):
    doc = "Avro, with schemas in a registry: what Confluent's AvroConverter and Avro serializers read and write. Needs `schema.registry.url`."
    schema_type = SchemaType.AVRO
    config_def = REGISTRY_DEF + ConfigDef(
        whole("schemas.cache.config", 1000, LOW, "How many schemas are kept ready.", AtLeast(1)),
        flag("connect.meta.data", True, LOW, "Whether Connect's names, versions, docs, parameters and defaults are kept in the Avro schema."),
        flag("enhanced.avro.schema.support", False, LOW, "Whether strings that were enums in Avro are written as enums, and branches of unions are told by whole names."),
        flag("ignore.default.for.nullables", False, LOW, "Whether a null in an optional field with a default is written as null instead of that default."),
    )  # fmt: skip

    def setup(self, config: Mapping[str, Any]) -> None:
        super().setup(config)
        self._options = AvroOptions(
            config["connect.meta.data"], config["enhanced.avro.schema.support"], config["ignore.default.for.nullables"]
        )

    def own_schema(self, schema: Schema | None) -> StoredSchema:
        text = compact_json(avro_schema(schema, self._options))
        return StoredSchema(parse(SchemaType.AVRO, text).canonical, SchemaType.AVRO)

    def writer(self, schema: Schema | None, target: ParsedSchema) -> Callable[[Any], bytes]:
        assert isinstance(target, AvroSchema)
        options = self._options
        if target.root.kind == "bytes":  # without a length, as Confluent's serializers do it
            return lambda value: bytes(avro_value(schema, value, options))
        write = compile_writer(target.root)
        return lambda value: write(avro_value(schema, value, options))

    def reader(self, writer: ParsedSchema, latest: ParsedSchema | None, version: int | None) -> Reading:
        assert isinstance(writer, AvroSchema)
        assert latest is None or isinstance(latest, AvroSchema)
        root, options = (latest or writer).root, self._options
        schema = connect_schema(root, options, version if latest is None else None)
        if writer.root.kind == root.kind == "bytes":
            return Reading(schema, lambda data: connect_value(schema, root, data, options))
        read = compile_reader(writer.root, root, stored=True)

        def decode(data: bytes) -> Any:
            return connect_value(schema, root, read(data), options)

        return Reading(schema, decode, functools.cache(lambda: column_reader(writer.root, root, schema, decode)))
