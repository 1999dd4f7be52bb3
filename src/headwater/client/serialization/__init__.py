"""From Python's values to bytes and back: the forms of Kafka's own serializers, JSON, and whatever the user brings.

A serializer is a function of the value, or an object with `serialize(topic, value, headers)`; a deserializer is a
function of the bytes, or an object with `deserialize(topic, data, headers)`. Null stays null in the ones here.

    Consumer(..., value_deserializer="json")           by name
    Consumer(..., value_deserializer=json.loads)       by function
    Consumer(..., value_deserializer=MyDeserializer()) by object
"""

from headwater.client.serialization.basic import (
    BOOLEAN,
    BYTES,
    DOUBLE,
    FLOAT,
    INTEGER,
    JSON,
    LONG,
    SHORT,
    STRING,
    UUID,
    VOID,
    Serde,
)
from headwater.client.serialization.resolving import deserializer_for, serializer_for

__all__ = [
    "BOOLEAN",
    "BYTES",
    "DOUBLE",
    "FLOAT",
    "INTEGER",
    "JSON",
    "LONG",
    "SHORT",
    "STRING",
    "UUID",
    "VOID",
    "Serde",
    "deserializer_for",
    "serializer_for",
]
