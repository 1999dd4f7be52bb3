"""JSON with a schema, through a schema registry: what confluent-kafka's JSONSerializer writes.

`validate=True` holds every value against its schema, with the jsonschema package (extra `registry` does not bring it).
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from headwater.client.schema_registry import models
from headwater.client.schema_registry.base import Headers, SchemaDeserializer, SchemaKey, SchemaSerializer, schema_key
from headwater.client.schema_registry.client import SchemaRegistryClient
from headwater.client.schema_registry.json_validation import Validate, validator
from headwater.client.schema_registry.settings import SerdeSettings, registry_for
from headwater.schemas import SchemaError, SchemaType, StoredSchema
from headwater.schemas.json_text import compact_json
from headwater.schemas.jsonschema import JsonSchema
from headwater.schemas.model import DataError

Given = str | type | StoredSchema | None


def stored_json(given: Given) -> StoredSchema | None:
    if given is None or isinstance(given, StoredSchema):
        return given
    return StoredSchema(given if isinstance(given, str) else compact_json(models.json_schema(given)), SchemaType.JSON)


def _validator(registry: SchemaRegistryClient, schema: StoredSchema) -> Validate:
    parsed = registry.parsed(schema)
    assert isinstance(parsed, JsonSchema)
    return validator(parsed)


class JsonSchemaSerializer(SchemaSerializer):
    schema_type = SchemaType.JSON

    def __init__(
        self,
        registry: SchemaRegistryClient | str | Mapping[str, Any],
        schema: Given = None,
        *,
        to_dict: Callable[[Any], Any] | None = None,
        validate: bool = False,
        conf: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(registry_for(registry), SerdeSettings.of(conf, settings))
        self._schema = stored_json(schema)
        self._to_dict = to_dict or models.to_json
        self._name = self.registry.parsed(self._schema).name if self._schema is not None else None
        self._validate = validate
        self._validators: dict[SchemaKey, Validate] = {}

    def serialize(self, topic: str, value: Any, headers: Headers = ()) -> bytes | None:
        if value is None:
            return None
        registered = self.schema_for(topic, self._schema, self._name)
        plain = self._to_dict(value)
        if self._validate:
            key = schema_key(registered.schema)
            validate = self._validators.get(key)
            if validate is None:
                validate = self._validators[key] = _validator(self.registry, registered.schema)
            validate(plain)
        try:
            data = compact_json(plain).encode()
        except SchemaError as error:
            raise DataError(str(error)) from error
        return self.framed(registered, data, headers)


class JsonSchemaDeserializer(SchemaDeserializer):
    schema_type = SchemaType.JSON

    def __init__(
        self,
        registry: SchemaRegistryClient | str | Mapping[str, Any],
        *,
        to: type | None = None,
        from_dict: Callable[[Any], Any] | None = None,
        validate: bool = False,
        conf: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        """Values are read as they were written; with `validate`, held against the schema that they were written
        with.
        """
        super().__init__(registry_for(registry), SerdeSettings.of(conf, settings))
        self._to = to
        self._from_dict = from_dict
        self._validate = validate

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = ()) -> Any:
        if data is None:
            return None
        schema_id, payload = self.unframed(bytes(data), headers)
        key = (schema_id.id, schema_id.guid, topic)
        writer = self.compiled(key, lambda: self.writer_schema(schema_id, topic))
        try:
            value = json.loads(payload)
        except (ValueError, RecursionError) as error:
            raise DataError(f"the record is not JSON: {error}") from error
        if self._validate:
            self.compiled(("validator", *key), lambda: _validator(self.registry, writer))(value)
        if self._from_dict is not None:
            return self._from_dict(value)
        return models.from_json(self._to, value, payload) if self._to is not None else value
