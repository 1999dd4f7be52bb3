import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsCommits;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.processor.internals.MergeOrder;
import org.apache.kafka.streams.test.TestRecord;

/**
 * Kafka Streams as an oracle: a case per line on stdin, its outcome per line on stdout, both JSON.
 *
 * <p>{"op": "run", "steps": topology, "inputs": [{"topic", "key", "value", "timestamp", "headers"} or {"advance": ms}],
 * "config": {}} answers {"describe", "outputs": per input the records [topic, key, value, timestamp, headers] (bytes in hex),
 * "stores": {name: entries}} or {"error": {...}}. {"op": "merge", "adds": ...} asks PartitionGroup for an order, {"op": "methods"}
 * for the public methods of the DSL.
 */
public final class StreamsOracle {
    private static final ObjectMapper JSON = new ObjectMapper();

    private StreamsOracle() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
        BufferedReader in =
                new BufferedReader(new InputStreamReader(new FileInputStream(FileDescriptor.in), StandardCharsets.UTF_8));
        System.setOut(System.err);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
            out.flush();
        }
    }

    private static JsonNode answer(JsonNode command) {
        try {
            switch (command.get("op").asText()) {
                case "merge":
                    return MergeOrder.of(command.get("inputs").asInt(), command.get("events"));
                case "methods":
                    return StreamsMethods.all();
                default:
                    return run(command);
            }
        } catch (Throwable error) { // an answer for the test that asked, whatever went wrong
            Throwable cause = error;
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            StringWriter trace = new StringWriter();
            error.printStackTrace(new PrintWriter(trace));
            ObjectNode answer = JSON.createObjectNode();
            answer.put("failed", cause.getClass().getSimpleName() + ": " + cause.getMessage()).put("trace", trace.toString());
            return answer;
        }
    }

    private static Properties properties(JsonNode command) {
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "app");
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:1");
        properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, StreamsFunctions.keySerde().getClass());
        properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, StreamsFunctions.AnySerde.class);
        properties.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        properties.put(StreamsConfig.STATE_DIR_CONFIG, System.getProperty("java.io.tmpdir"));
        command.path("config").fields().forEachRemaining(
                entry -> properties.put(entry.getKey(), entry.getValue().isNumber() ? entry.getValue().numberValue() : entry.getValue().asText()));
        return properties;
    }

    private static JsonNode run(JsonNode command) throws Exception {
        Properties properties = properties(command);
        Map<String, Path> printed = new HashMap<>();
        StreamsBuilder builder = StreamsTopologies.build(command.get("steps"), printed);
        Topology topology = builder.build(properties);
        ObjectNode answer = JSON.createObjectNode();
        answer.put("describe", topology.describe().toString());
        ArrayNode outputs = answer.putArray("outputs");
        try (TopologyTestDriver driver = new TopologyTestDriver(topology, properties, Instant.ofEpochMilli(0))) {
            Map<String, TestInputTopic<byte[], byte[]>> topics = new HashMap<>();
            StreamsCommits commits = command.path("commits").asBoolean() ? new StreamsCommits(driver) : null;
            read(driver, outputs.addArray());
            for (JsonNode input : command.get("inputs")) {
                if (input.has("commit")) {
                    commits.commit();
                } else if (commits != null) {
                    commits.pipe(input.get("topic").asText(), record(input));
                } else if (input.has("advance")) {
                    driver.advanceWallClockTime(Duration.ofMillis(input.get("advance").asLong()));
                } else {
                    topics.computeIfAbsent(input.get("topic").asText(),
                            name -> driver.createInputTopic(name, new ByteArraySerializer(), new ByteArraySerializer()))
                            .pipeInput(record(input));
                }
                read(driver, outputs.addArray());
            }
            StreamsStores.read(driver, answer.putObject("stores"));
        }
        ObjectNode lines = answer.putObject("printed");
        for (Map.Entry<String, Path> file : printed.entrySet()) {
            lines.put(file.getKey(), Files.readString(file.getValue()));
            Files.delete(file.getValue());
        }
        return answer;
    }

    private static TestRecord<byte[], byte[]> record(JsonNode input) {
        Headers headers = new RecordHeaders();
        for (JsonNode header : input.path("headers")) {
            headers.add(header.get(0).asText(), header.get(1).isNull() ? null : header.get(1).asText().getBytes(StandardCharsets.UTF_8));
        }
        JsonNode value = input.get("value");
        Object plain = value.isNull() ? null : value.isNumber() ? (Object) value.asLong() : value.asText();
        byte[] key = input.get("key").isNull() ? null : input.get("key").asText().getBytes(StandardCharsets.UTF_8);
        byte[] bytes = new StreamsFunctions.AnySerde().serializer().serialize("", plain);
        return new TestRecord<>(key, bytes, headers, input.get("timestamp").asLong());
    }

    private static void read(TopologyTestDriver driver, ArrayNode records) {
        for (String topic : new TreeSet<>(driver.producedTopicNames())) {
            TestOutputTopic<byte[], byte[]> output =
                    driver.createOutputTopic(topic, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            while (!output.isEmpty()) {
                TestRecord<byte[], byte[]> record = output.readRecord();
                ArrayNode row = records.addArray().add(topic).add(hex(record.key())).add(hex(record.value())).add(record.timestamp());
                ArrayNode headers = row.addArray();
                for (Header header : record.headers()) {
                    headers.addArray().add(header.key()).add(hex(header.value()));
                }
            }
        }
    }

    static String hex(byte[] bytes) {
        return bytes == null ? null : HexFormat.of().formatHex(bytes);
    }
}
