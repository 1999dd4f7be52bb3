import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.MetricNameTemplate;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.metrics.MeasurableStat;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.stats.Avg;
import org.apache.kafka.common.metrics.stats.Max;
import org.apache.kafka.common.metrics.stats.Min;
import org.apache.kafka.common.metrics.stats.Rate;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.data.Values;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.runtime.ConnectMetricsRegistry;
import org.apache.kafka.connect.runtime.standalone.StandaloneConfig;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.FileOffsetBackingStore;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/**
 * Kafka Connect's own transforms, converters and files, asked by the tests: a command per line, JSON both ways. Values are
 * tagged: ["i", "5"] a whole number, ["f", "0.5"], ["s", text], ["x", hex], ["d", milliseconds] a date, time or timestamp,
 * ["n", unscaled, scale] a decimal, ["l", [...]], ["m", [[key, value]...]], ["t", [...]] a struct by its schema.
 */
public final class ConnectOracle {
    private static final HexFormat HEX = HexFormat.of();

    private ConnectOracle() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        BufferedReader in =
                new BufferedReader(new InputStreamReader(new FileInputStream(FileDescriptor.in), StandardCharsets.UTF_8));
        System.setOut(System.err);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode answer;
            try {
                answer = answer(Harness.JSON.readTree(line));
            } catch (Throwable error) { // an answer for the test that asked, whatever went wrong
                ObjectNode failed = Harness.JSON.createObjectNode();
                failed.put("failed", error.getClass().getName());
                failed.put("message", String.valueOf(error.getMessage()));
                answer = failed;
            }
            out.println(Harness.JSON.writeValueAsString(answer));
        }
    }

    private static JsonNode answer(JsonNode command) throws Exception {
        switch (command.get("op").asText()) {
            case "transform":
                return transform(command);
            case "toJson":
                return toBytes(command);
            case "fromJson":
                return fromBytes(command);
            case "parse":
                return encode(Values.parseString(command.get("text").asText()));
            case "text":
                Schema schema = schema(command.get("schema"));
                String text = Values.convertToString(schema, decode(schema, command.get("value")));
                return Harness.JSON.createObjectNode().put("text", text);
            case "definitions":
                return definitions(command);
            case "metrics":
                return metrics();
            case "sensor":
                return sensor(command);
            case "writeOffsets":
                return writeOffsets(command);
            case "readOffsets":
                return readOffsets(command);
            default:
                throw new IllegalArgumentException("no such op: " + command);
        }
    }

    /** The names of Connect's metrics: [group, name, [tags]]. */
    private static JsonNode metrics() {
        ObjectNode made = Harness.JSON.createObjectNode();
        ArrayNode rows = made.putArray("templates");
        for (MetricNameTemplate each : new ConnectMetricsRegistry().getAllTemplates()) {
            ArrayNode row = rows.addArray().add(each.group()).add(each.name());
            ArrayNode tags = row.addArray();
            each.tags().forEach(tags::add);
        }
        return made;
    }

    /** Kafka's own statistics over values at given times: rate, average, largest, smallest after each step that asks. */
    private static JsonNode sensor(JsonNode command) {
        MetricConfig config = new MetricConfig()
                .samples(command.get("samples").asInt())
                .timeWindow(command.get("windowMs").asLong(), TimeUnit.MILLISECONDS);
        List<MeasurableStat> stats = List.of(new Rate(), new Avg(), new Max(), new Min());
        ObjectNode made = Harness.JSON.createObjectNode();
        ArrayNode answers = made.putArray("answers");
        for (JsonNode step : command.get("steps")) {
            long nowMs = step.get(0).asLong();
            if (!step.get(1).isNull()) {
                stats.forEach(each -> each.record(config, step.get(1).asDouble(), nowMs));
                continue;
            }
            ArrayNode answer = answers.addArray();
            for (MeasurableStat each : stats) {
                double value = each.measure(config, nowMs);
                if (Double.isNaN(value)) {
                    answer.addNull();
                } else {
                    answer.add(value);
                }
            }
        }
        return made;
    }

    private static Map<String, String> config(JsonNode node) {
        Map<String, String> config = new HashMap<>();
        node.properties().forEach(entry -> config.put(entry.getKey(), entry.getValue().asText()));
        return config;
    }

    @SuppressWarnings("unchecked")
    private static JsonNode transform(JsonNode command) throws Exception {
        SinkRecord record = record(command.get("record"));
        for (JsonNode step : command.get("chain")) {
            Transformation<SinkRecord> transformation =
                    (Transformation<SinkRecord>) Class.forName(step.get("class").asText()).getConstructor().newInstance();
            transformation.configure(config(step.get("config")));
            if (step.has("predicate")) {
                JsonNode named = step.get("predicate");
                Predicate<SinkRecord> predicate =
                        (Predicate<SinkRecord>) Class.forName(named.get("class").asText()).getConstructor().newInstance();
                predicate.configure(config(named.get("config")));
                if (predicate.test(record) == named.get("negate").asBoolean()) {
                    continue;
                }
            }
            record = transformation.apply(record);
            if (record == null) {
                return Harness.JSON.createObjectNode().put("dropped", true);
            }
        }
        return encode(record);
    }

    private static SinkRecord record(JsonNode node) {
        ConnectHeaders headers = new ConnectHeaders();
        for (JsonNode each : node.get("headers")) {
            Schema schema = schema(each.get("schema"));
            headers.add(each.get("key").asText(), decode(schema, each.get("value")), schema);
        }
        Schema keySchema = schema(node.get("keySchema"));
        Schema valueSchema = schema(node.get("valueSchema"));
        Long timestamp = node.get("timestamp").isNull() ? null : node.get("timestamp").asLong();
        return new SinkRecord(
                node.get("topic").asText(), node.get("partition").asInt(), keySchema, decode(keySchema, node.get("key")),
                valueSchema, decode(valueSchema, node.get("value")), node.get("offset").asLong(), timestamp,
                TimestampType.CREATE_TIME, headers);
    }

    private static ObjectNode encode(SinkRecord record) {
        ObjectNode made = Harness.JSON.createObjectNode();
        made.put("topic", record.topic());
        made.put("partition", record.kafkaPartition());
        made.set("keySchema", encode(record.keySchema()));
        made.set("key", encode(record.key()));
        made.set("valueSchema", encode(record.valueSchema()));
        made.set("value", encode(record.value()));
        made.put("timestamp", record.timestamp());
        ArrayNode headers = made.putArray("headers");
        for (Header each : record.headers()) {
            ObjectNode header = headers.addObject().put("key", each.key());
            header.set("schema", encode(each.schema()));
            header.set("value", encode(each.value()));
        }
        return made;
    }

    private static ObjectNode encode(SchemaAndValue given) {
        ObjectNode made = Harness.JSON.createObjectNode();
        made.set("schema", encode(given == null ? null : given.schema()));
        made.set("value", encode(given == null ? null : given.value()));
        return made;
    }

    private static JsonConverter converter(JsonNode command) {
        JsonConverter converter = new JsonConverter();
        converter.configure(config(command.get("config")), false);
        return converter;
    }

    private static JsonNode toBytes(JsonNode command) {
        Schema schema = schema(command.get("schema"));
        byte[] made = converter(command).fromConnectData("t", schema, decode(schema, command.get("value")));
        return Harness.JSON.createObjectNode().put("data", made == null ? null : HEX.formatHex(made));
    }

    private static JsonNode fromBytes(JsonNode command) {
        return encode(converter(command).toConnectData("t", HEX.parseHex(command.get("data").asText())));
    }

    private static JsonNode definitions(JsonNode command) throws Exception {
        ObjectNode made = Harness.JSON.createObjectNode();
        for (JsonNode name : command.get("classes")) {
            Class<?> found = Class.forName(name.asText());
            ConfigDef definition;
            if (org.apache.kafka.connect.runtime.ConnectorConfig.class.isAssignableFrom(found)) {
                definition = (ConfigDef) found.getMethod("configDef").invoke(null);
            } else {
                Object plugin = found.getConstructor().newInstance();
                definition = (ConfigDef) found.getMethod("config").invoke(plugin);
            }
            ObjectNode keys = made.putObject(name.asText());
            definition.configKeys().forEach((key, row) -> {
                ObjectNode one = keys.putObject(key);
                one.put("type", row.type.name());
                one.put("required", row.defaultValue == ConfigDef.NO_DEFAULT_VALUE);
                one.put("default", row.defaultValue == ConfigDef.NO_DEFAULT_VALUE
                        ? null : ConfigDef.convertToString(row.defaultValue, row.type));
                one.put("importance", row.importance.name());
                one.put("group", row.group);
                one.put("order", row.orderInGroup);
                one.put("width", row.width.name());
                one.put("display", row.displayName);
            });
        }
        return made;
    }

    private static FileOffsetBackingStore store(JsonNode command) {
        JsonConverter converter = new JsonConverter();
        converter.configure(Map.of("schemas.enable", "false"), true);
        FileOffsetBackingStore store = new FileOffsetBackingStore(converter);
        Map<String, String> worker = new HashMap<>();
        worker.put("bootstrap.servers", "localhost:1");
        worker.put("key.converter", "org.apache.kafka.connect.json.JsonConverter");
        worker.put("value.converter", "org.apache.kafka.connect.json.JsonConverter");
        worker.put("offset.storage.file.filename", command.get("file").asText());
        store.configure(new StandaloneConfig(worker));
        store.start();
        return store;
    }

    private static JsonNode writeOffsets(JsonNode command) throws Exception {
        FileOffsetBackingStore store = store(command);
        Map<ByteBuffer, ByteBuffer> values = new LinkedHashMap<>();
        for (JsonNode pair : command.get("offsets")) {
            values.put(ByteBuffer.wrap(HEX.parseHex(pair.get(0).asText())),
                    pair.get(1).isNull() ? null : ByteBuffer.wrap(HEX.parseHex(pair.get(1).asText())));
        }
        store.set(values, null).get();
        store.stop();
        return Harness.JSON.createObjectNode();
    }

    private static JsonNode readOffsets(JsonNode command) throws Exception {
        FileOffsetBackingStore store = store(command);
        List<ByteBuffer> keys = new ArrayList<>();
        command.get("keys").forEach(key -> keys.add(ByteBuffer.wrap(HEX.parseHex(key.asText()))));
        ObjectNode made = Harness.JSON.createObjectNode();
        store.get(keys).get().forEach((key, value) ->
                made.put(HEX.formatHex(key.array()), value == null ? null : HEX.formatHex(value.array())));
        store.stop();
        return made;
    }

    private static Schema schema(JsonNode node) {
        if (node == null || node.isNull()) {
            return null;
        }
        Schema.Type type = Schema.Type.valueOf(node.get("type").asText());
        SchemaBuilder builder;
        switch (type) {
            case ARRAY:
                builder = SchemaBuilder.array(schema(node.get("values")));
                break;
            case MAP:
                builder = SchemaBuilder.map(schema(node.get("keys")), schema(node.get("values")));
                break;
            default:
                builder = new SchemaBuilder(type);
        }
        if (type == Schema.Type.STRUCT) {
            for (JsonNode field : node.get("fields")) {
                builder.field(field.get(0).asText(), schema(field.get(1)));
            }
        }
        if (node.get("optional").asBoolean()) {
            builder.optional();
        }
        if (!node.get("name").isNull()) {
            builder.name(node.get("name").asText());
        }
        if (!node.get("version").isNull()) {
            builder.version(node.get("version").asInt());
        }
        if (!node.get("doc").isNull()) {
            builder.doc(node.get("doc").asText());
        }
        if (!node.get("parameters").isNull()) {
            node.get("parameters").properties().forEach(each -> builder.parameter(each.getKey(), each.getValue().asText()));
        }
        if (!node.get("default").isNull()) {
            builder.defaultValue(decode(builder.build(), node.get("default")));
        }
        return builder.build();
    }

    private static JsonNode encode(Schema schema) {
        if (schema == null) {
            return Harness.JSON.nullNode();
        }
        ObjectNode made = Harness.JSON.createObjectNode();
        made.put("type", schema.type().name());
        made.put("optional", schema.isOptional());
        made.put("name", schema.name());
        made.put("version", schema.version());
        made.put("doc", schema.doc());
        made.set("parameters", Harness.JSON.valueToTree(schema.parameters()));
        made.set("default", encode(schema.defaultValue()));
        if (schema.type() == Schema.Type.STRUCT) {
            ArrayNode fields = made.putArray("fields");
            for (Field field : schema.fields()) {
                fields.addArray().add(field.name()).add(encode(field.schema()));
            }
        }
        if (schema.type() == Schema.Type.MAP) {
            made.set("keys", encode(schema.keySchema()));
        }
        if (schema.type() == Schema.Type.MAP || schema.type() == Schema.Type.ARRAY) {
            made.set("values", encode(schema.valueSchema()));
        }
        return made;
    }

    private static Object decode(Schema schema, JsonNode node) {
        if (node == null || node.isNull()) {
            return null;
        }
        JsonNode given = node.get(1);
        switch (node.get(0).asText()) {
            case "b":
                return given.asBoolean();
            case "i":
                long number = Long.parseLong(given.asText());
                if (schema == null) {
                    return number;
                }
                switch (schema.type()) {
                    case INT8:
                        return (byte) number;
                    case INT16:
                        return (short) number;
                    case INT32:
                        return (int) number;
                    default:
                        return number;
                }
            case "f":
                double fraction = Double.parseDouble(given.asText());
                return schema != null && schema.type() == Schema.Type.FLOAT32 ? (Object) (float) fraction : (Object) fraction;
            case "s":
                return given.asText();
            case "x":
                return HEX.parseHex(given.asText());
            case "d":
                return new java.util.Date(given.asLong());
            case "n":
                return new BigDecimal(new BigInteger(given.asText()), node.get(2).asInt());
            case "l":
                List<Object> list = new ArrayList<>();
                given.forEach(each -> list.add(decode(schema == null ? null : schema.valueSchema(), each)));
                return list;
            case "m":
                Map<Object, Object> map = new LinkedHashMap<>();
                given.forEach(each -> map.put(decode(schema == null ? null : schema.keySchema(), each.get(0)),
                        decode(schema == null ? null : schema.valueSchema(), each.get(1))));
                return map;
            case "t":
                Struct struct = new Struct(schema);
                for (Field field : schema.fields()) {
                    Object value = decode(field.schema(), given.get(field.index()));
                    if (value != null) {
                        struct.put(field, value);
                    }
                }
                return struct;
            default:
                throw new IllegalArgumentException("no such value: " + node);
        }
    }

    private static JsonNode encode(Object value) {
        ArrayNode made = Harness.JSON.createArrayNode();
        if (value == null) {
            return Harness.JSON.nullNode();
        } else if (value instanceof Boolean) {
            return made.add("b").add((Boolean) value);
        } else if (value instanceof BigDecimal) {
            BigDecimal decimal = (BigDecimal) value;
            return made.add("n").add(decimal.unscaledValue().toString()).add(decimal.scale());
        } else if (value instanceof Float || value instanceof Double) {
            return made.add("f").add(Double.toString(((Number) value).doubleValue()));
        } else if (value instanceof Number) {
            return made.add("i").add(value.toString());
        } else if (value instanceof String) {
            return made.add("s").add((String) value);
        } else if (value instanceof byte[]) {
            return made.add("x").add(HEX.formatHex((byte[]) value));
        } else if (value instanceof java.util.Date) {
            return made.add("d").add(((java.util.Date) value).getTime());
        } else if (value instanceof List) {
            ArrayNode list = made.add("l").addArray();
            ((List<?>) value).forEach(each -> list.add(encode(each)));
            return made;
        } else if (value instanceof Map) {
            ArrayNode map = made.add("m").addArray();
            ((Map<?, ?>) value).forEach((key, each) -> map.addArray().add(encode(key)).add(encode(each)));
            return made;
        }
        Struct struct = (Struct) value;
        ArrayNode fields = made.add("t").addArray();
        for (Field field : struct.schema().fields()) {
            fields.add(encode(struct.getWithoutDefault(field.name())));
        }
        return made;
    }
}
