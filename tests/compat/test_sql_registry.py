"""The SQL server with a real schema registry: others' clients write what it reads and read what it writes."""

import json
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka import schema_registry as theirs
from confluent_kafka.schema_registry import avro as their_avro
from confluent_kafka.schema_registry import json_schema as their_json
from confluent_kafka.schema_registry import protobuf as their_protobuf
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from compat.support.broker import BrokerProcess
from compat.support.members import until
from compat.support.registry import Registry
from compat.support.sql_server import SqlServer
from compat.test_connect_standalone import read_topic

_ORDER = '{"type": "record", "name": "order", "fields": [{"name": "who", "type": "string"}, {"name": "amount", "type": ["null", "int"]}]}'


def test_schemas_are_read_registered_and_written(tmp_path: Path, group_broker: BrokerProcess, topic: str) -> None:
    bootstrap = group_broker.bootstrap
    with (
        Registry(bootstrap) as registry,
        theirs.SchemaRegistryClient({"url": registry.url}) as client,
        SqlServer(bootstrap, tmp_path, topic, ksql_schema_registry_url=registry.url) as server,
    ):
        write = their_avro.AvroSerializer(client, _ORDER)
        context = SerializationContext(topic, MessageField.VALUE)
        producer = Producer({"bootstrap.servers": bootstrap})
        for number in range(3):
            producer.produce(topic, write({"who": f"w{number}", "amount": number}, context), key=f"k{number}")
        assert producer.flush(60) == 0

        server.run(f"CREATE STREAM s (k STRING KEY) WITH (kafka_topic='{topic}', value_format='AVRO');")
        fields = server.run("DESCRIBE s;")[0]["sourceDescription"]["fields"]
        assert [(each["name"], each["schema"]["type"]) for each in fields] == [
            ("K", "STRING"), ("WHO", "STRING"), ("AMOUNT", "INTEGER")
        ]  # fmt: skip
        for name, format_ in (("a", "AVRO"), ("j", "JSON_SR"), ("p", "PROTOBUF")):
            server.run(
                f"CREATE STREAM {name} WITH (kafka_topic='{topic}-{name}', value_format='{format_}') AS "
                "SELECT k, who, amount * 2 AS twice FROM s;"
            )
        wanted = [{"WHO": f"w{number}", "TWICE": number * 2} for number in range(3)]

        context = SerializationContext(f"{topic}-a", MessageField.VALUE)
        read_avro = their_avro.AvroDeserializer(client)
        assert [read_avro(each.value, context) for each in read_topic(bootstrap, f"{topic}-a", 3)] == wanted
        read_json = their_json.JSONDeserializer(None, schema_registry_client=client, conf={"validate": True})
        context = SerializationContext(f"{topic}-j", MessageField.VALUE)
        assert [read_json(each.value, context) for each in read_topic(bootstrap, f"{topic}-j", 3)] == wanted
        read = their_protobuf.ProtobufDeserializer(_protobuf_class(), {"use.deprecated.format": False}, client)
        context = SerializationContext(f"{topic}-p", MessageField.VALUE)
        found = [read(each.value, context) for each in read_topic(bootstrap, f"{topic}-p", 3)]
        assert [{"WHO": each.WHO, "TWICE": each.TWICE} for each in found] == wanted

        schema = json.loads(client.get_latest_version(f"{topic}-a-value").schema.schema_str)
        assert (schema["name"], schema["namespace"]) == ("KsqlDataSourceSchema", "io.confluent.ksql.avro_schemas")
        server.run(f"ASSERT SCHEMA SUBJECT '{topic}-a-value';")
        server.run(f"ASSERT NOT EXISTS SCHEMA SUBJECT '{topic}-nothing';")
        status, _ = server.call(
            "POST", "/ksql", {"ksql": f"ASSERT SCHEMA SUBJECT '{topic}-nothing' TIMEOUT 1 SECONDS;"}
        )
        assert status == 417
        server.run(
            f"CREATE TABLE n WITH (kafka_topic='{topic}-n', key_format='AVRO') AS SELECT who, COUNT(*) AS c FROM s GROUP BY who;"
        )
        rows = [[f"w{number}", 1] for number in range(3)]
        until(lambda: server.ask("SELECT * FROM n ORDER BY who;") == rows, "the counts do not come", 180)
        server.run("INSERT INTO s VALUES ('k9', 'w9', 9);")
        until(lambda: server.ask("SELECT c FROM n WHERE who = 'w9';") == [[1]], "the row does not come", 180)
        assert server.stop() == 0
        # The log has the columns: the server comes back with them, whatever the registry says by then.
        client.delete_subject(f"{topic}-value")
        with SqlServer(bootstrap, tmp_path, topic, ksql_schema_registry_url=registry.url) as again:
            assert again.ask("SELECT c FROM n WHERE who = 'w9';") == [[1]]
            fields = again.run("DESCRIBE s;")[0]["sourceDescription"]["fields"]
            assert [each["name"] for each in fields] == ["K", "WHO", "AMOUNT"]
            assert again.stop() == 0


def _protobuf_class() -> type:
    file = descriptor_pb2.FileDescriptorProto(name="row.proto", syntax="proto3")
    message = file.message_type.add(name="ConnectDefault1")
    for number, (name, kind) in enumerate((("WHO", 9), ("TWICE", 5)), 1):
        message.field.add(name=name, number=number, type=kind, label=1)  # type: ignore[arg-type]
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    made: type = message_factory.GetMessageClass(pool.FindMessageTypeByName("ConnectDefault1"))
    return made


def test_without_a_registry_the_formats_are_refused_with_words(
    tmp_path: Path, group_broker: BrokerProcess, topic: str
) -> None:
    with SqlServer(group_broker.bootstrap, tmp_path, topic) as server:
        text = f"CREATE STREAM s (k STRING KEY, v INT) WITH (kafka_topic='{topic}', value_format='AVRO', partitions=1);"
        status, body = server.call("POST", "/ksql", {"ksql": text})
        assert (status, "ksql.schema.registry.url" in json.loads(body)["message"]) == (428, True)
        server.run(text.replace("AVRO", "PROTOBUF_NOSR"))
        server.run("INSERT INTO s VALUES ('a', 3);")
        assert server.ask("SELECT * FROM s;") == [["a", 3]]
        assert server.stop() == 0
