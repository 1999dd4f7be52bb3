import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.WindowedSerdes;

/** The topologies of streams_apps.py, and the queries of sql_apps.py, in Kafka Streams: `StreamsPeer SCENARIO BROKERS APPLICATION STATE COMMIT_MS CACHE_BYTES THREADS`. */
final class StreamsPeer {
    static final Serde<String> TEXT = Serdes.String();
    static final ObjectMapper JSON = new ObjectMapper();
    static final Duration WINDOW = Duration.ofMinutes(1);
    static final Duration APART = Duration.ofSeconds(5);

    public static void main(String[] arguments) throws Exception {
        String application = arguments[2];
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[1]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, application);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[3]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, Integer.parseInt(arguments[4]));
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, Long.parseLong(arguments[5]));
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, Integer.parseInt(arguments[6]));
        settings.put("auto.offset.reset", "earliest");
        StreamsBuilder builder = new StreamsBuilder();
        build(arguments[0], builder, application);
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.start();
        System.out.println("ready");
        while (System.in.read() >= 0) {
            // until it is closed
        }
        streams.close(Duration.ofSeconds(60));
    }

    static void build(String scenario, StreamsBuilder builder, String application) {
        if (scenario.startsWith("sql-")) {
            buildQuery(scenario, builder, application);
            return;
        }
        KStream<String, String> in = builder.stream(application + ".in", Consumed.with(TEXT, TEXT));
        String out = application + ".out";
        switch (scenario) {
            case "count" -> in.groupByKey(Grouped.with(TEXT, TEXT)).count(Materialized.as("counts"))
                    .toStream().to(out, Produced.with(TEXT, Serdes.Long()));
            case "windowed" -> in.groupByKey(Grouped.with(TEXT, TEXT))
                    .windowedBy(TimeWindows.ofSizeWithNoGrace(WINDOW)).count(Materialized.as("counts"))
                    .toStream().to(out, Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, WINDOW.toMillis()), Serdes.Long()));
            case "table" -> in.join(builder.table(application + ".other", Consumed.with(TEXT, TEXT), Materialized.as("rows")),
                    (left, right) -> left + "/" + right, Joined.with(TEXT, TEXT, TEXT)).to(out, Produced.with(TEXT, TEXT));
            case "stream" -> in.join(builder.stream(application + ".other", Consumed.with(TEXT, TEXT)),
                    (left, right) -> left + "/" + right, JoinWindows.ofTimeDifferenceWithNoGrace(APART),
                    StreamJoined.with(TEXT, TEXT, TEXT)).to(out, Produced.with(TEXT, TEXT));
            case "function" -> in.mapValues(value -> value.toUpperCase() + "!").to(out, Produced.with(TEXT, TEXT));
            default -> throw new IllegalArgumentException(scenario);
        }
    }

    static void buildQuery(String scenario, StreamsBuilder builder, String application) {
        Serde<Integer> key = Serdes.Integer();
        Serde<ObjectNode> row = Serdes.serdeFrom((topic, value) -> written(value), (topic, data) -> read(data));
        KStream<Integer, ObjectNode> in = builder.stream(application + ".in", Consumed.with(key, row));
        String out = application + ".out";
        switch (scenario) {
            case "sql-filter-project" -> in.filter((id, value) -> value.get("AMOUNT").asInt() > 1)
                    .mapValues(value -> JSON.createObjectNode().put("NAME", value.get("NAME").asText().toUpperCase())
                            .put("TWICE", value.get("AMOUNT").asInt() * 2))
                    .to(out, Produced.with(key, row));
            case "sql-windowed-count" -> in.groupByKey(Grouped.with(key, row))
                    .windowedBy(TimeWindows.ofSizeAndGrace(WINDOW, Duration.ofDays(1).minus(WINDOW)))
                    .count(Materialized.as("counts")).toStream().mapValues(count -> JSON.createObjectNode().put("N", count))
                    .to(out, Produced.with(WindowedSerdes.timeWindowedSerdeFrom(Integer.class, WINDOW.toMillis()), row));
            case "sql-stream-table-join" -> in.join(builder.table(application + ".other", Consumed.with(key, row), Materialized.as("rows")),
                    (left, right) -> JSON.createObjectNode().<ObjectNode>set("AMOUNT", left.get("AMOUNT")).<ObjectNode>set("WHO", right.get("WHO")),
                    Joined.with(key, row, row)).to(out, Produced.with(key, row));
            default -> throw new IllegalArgumentException(scenario);
        }
    }

    static byte[] written(ObjectNode value) {
        try {
            return value == null ? null : JSON.writeValueAsBytes(value);
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
    }

    static ObjectNode read(byte[] data) {
        try {
            return data == null ? null : (ObjectNode) JSON.readTree(data);
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
    }
}
