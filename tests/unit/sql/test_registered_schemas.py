"""Which schema rows are written with, where the registry has some already."""

from headwater.schemas import SchemaType
from headwater.schemas.framing import read_schema_id
from headwater.sql.formats.registry.port import MemorySchemas
from headwater.sql.plan import reading
from headwater.sql.plan.session import Session


def test_rows_are_the_message_of_the_registered_file_that_the_statement_names() -> None:
    """A file of that message alone was registered, which compatibility forbids: the others would be gone."""
    schemas = MemorySchemas()
    text = 'syntax = "proto3"; message Other {uint32 a = 1;} message Row {optional string N = 1;}'
    registered = schemas.add("t-value", SchemaType.PROTOBUF, text)
    session = Session(schemas=schemas)
    session.run("CREATE STREAM s WITH (kafka_topic='t', value_format='PROTOBUF', value_schema_full_name='Row');")
    serde = reading.value_serde(session.catalog.find("S"))
    data = serde.serialize(["x"])
    found, begin = read_schema_id(data, protobuf=True)
    assert (found.id, found.message_indexes, data[begin:]) == (registered.id, (1,), b"\n\x01x")
    assert serde.deserialize(data) == ["x"]
    latest = schemas.latest("t-value")
    assert latest is not None
    assert latest.id == registered.id
