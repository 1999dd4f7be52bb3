import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.avro.AvroSchema;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.avro.AvroSchemaProvider;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.CachedSchemaRegistryClient;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.SchemaMetadata;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.RestService;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.entities.Metadata;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.entities.SchemaReference;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.exceptions.RestClientException;
import org.apache.flink.avro.shaded.org.apache.avro.Schema;
import org.apache.flink.avro.shaded.org.apache.avro.generic.GenericDatumReader;
import org.apache.flink.avro.shaded.org.apache.avro.generic.GenericDatumWriter;
import org.apache.flink.avro.shaded.org.apache.avro.io.BinaryEncoder;
import org.apache.flink.avro.shaded.org.apache.avro.io.DecoderFactory;
import org.apache.flink.avro.shaded.org.apache.avro.io.EncoderFactory;

/**
 * Confluent's own Java client of a schema registry, as Apache Flink ships it under another package name. A call per line
 * on stdin (its name and arguments between tabs), its answer per line on stdout; "error STATUS CODE" is one, too.
 */
public final class ConfluentClient {
    private final CachedSchemaRegistryClient client;

    private ConfluentClient(String url) {
        client = new CachedSchemaRegistryClient(
                new RestService(url), 100, List.of(new AvroSchemaProvider()), Map.of(), Map.of());
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        ConfluentClient client = new ConfluentClient(arguments[0]);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(client.answer(line.split("\t", -1)));
        }
    }

    private Object answer(String[] call) throws Exception {
        try {
            return call(call);
        } catch (RestClientException error) {
            return "error " + error.getStatus() + " " + error.getErrorCode();
        }
    }

    private Object call(String[] call) throws Exception {
        switch (call[0]) {
            case "register":
                return client.register(call[1], new AvroSchema(call[2]));
            case "registerNormalized":
                return client.register(call[1], new AvroSchema(call[2]), true);
            case "registerReferring": // subject, schema, name, subject and version of what it refers to
                List<SchemaReference> references = List.of(new SchemaReference(call[3], call[4], Integer.parseInt(call[5])));
                return client.register(call[1], client.parseSchema("AVRO", call[2], references).orElseThrow());
            case "registerTagged": // subject, schema, field, tag
                Metadata metadata = new Metadata(Map.of(call[3], new java.util.TreeSet<>(List.of(call[4]))), null, null);
                return client.register(call[1], new AvroSchema(call[2]).copy(metadata, null));
            case "tags":
                return client.getLatestSchemaMetadata(call[1]).getMetadata().getTags();
            case "id":
                return client.getId(call[1], new AvroSchema(call[2]));
            case "version":
                return client.getVersion(call[1], new AvroSchema(call[2]));
            case "byId":
                return client.getSchemaById(Integer.parseInt(call[1])).canonicalString();
            case "bySubjectAndId":
                return client.getSchemaBySubjectAndId(call[1], Integer.parseInt(call[2])).canonicalString();
            case "subjectsOf":
                return client.getAllSubjectsById(Integer.parseInt(call[1]));
            case "versionsOf":
                return client.getAllVersionsById(Integer.parseInt(call[1]));
            case "versions":
                return client.getAllVersions(call[1]);
            case "latest":
                SchemaMetadata latest = client.getLatestSchemaMetadata(call[1]);
                return latest.getId() + " " + latest.getVersion() + " " + latest.getSchemaType() + " " + latest.getSchema();
            case "subjects":
                return client.getAllSubjectsByPrefix(call[1]);
            case "isCompatible":
                return client.testCompatibility(call[1], new AvroSchema(call[2]));
            case "whyNot":
                return client.testCompatibilityVerbose(call[1], new AvroSchema(call[2]));
            case "setCompatibility":
                return client.updateCompatibility(call[1], call[2]);
            case "compatibility":
                return client.getCompatibility(call[1]);
            case "setMode":
                return client.setMode(call[2], call[1]);
            case "mode":
                return client.getMode(call[1]);
            case "deleteVersion":
                return client.deleteSchemaVersion(call[1], call[2], Boolean.parseBoolean(call[3]));
            case "deleteSubject":
                return client.deleteSubject(call[1], Boolean.parseBoolean(call[2]));
            case "encode": // subject, schema, value as Avro's JSON
                return encode(call[1], new Schema.Parser().parse(call[2]), call[3]);
            case "decode":
                return decode(ByteBuffer.wrap(HexFormat.of().parseHex(call[1])));
            default:
                throw new IllegalArgumentException(call[0]);
        }
    }

    private String encode(String subject, Schema schema, String json) throws Exception {
        Object value = new GenericDatumReader<>(schema).read(null, DecoderFactory.get().jsonDecoder(schema, json));
        ByteArrayOutputStream data = new ByteArrayOutputStream();
        data.write(0);
        data.write(ByteBuffer.allocate(4).putInt(client.register(subject, new AvroSchema(schema))).array());
        BinaryEncoder encoder = EncoderFactory.get().binaryEncoder(data, null);
        new GenericDatumWriter<>(schema).write(value, encoder);
        encoder.flush();
        return HexFormat.of().formatHex(data.toByteArray());
    }

    private Object decode(ByteBuffer data) throws Exception {
        if (data.get() != 0) {
            throw new IllegalArgumentException("the magic byte is not 0");
        }
        Schema schema = ((AvroSchema) client.getSchemaById(data.getInt())).rawSchema();
        byte[] rest = new byte[data.remaining()];
        data.get(rest);
        return new GenericDatumReader<>(schema).read(null, DecoderFactory.get().binaryDecoder(rest, null));
    }
}
