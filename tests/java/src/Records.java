import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Produce and consume, by `assign`. A producer with a "handle" stays open over several commands (and a broker's death). */
final class Records {
    private final Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();

    void close() {
        producers.values().forEach(producer -> producer.close(Duration.ofSeconds(1)));
    }

    JsonNode produce(JsonNode command) throws Exception {
        String handle = command.path("handle").asText("");
        KafkaProducer<byte[], byte[]> producer = producers.get(handle);
        if (producer == null) {
            producer = new KafkaProducer<>(properties(command), new ByteArraySerializer(), new ByteArraySerializer());
        }
        if (!handle.isEmpty()) {
            producers.put(handle, producer);
        }
        try {
            return send(producer, command);
        } finally {
            if (handle.isEmpty()) {
                producer.close();
            }
        }
    }

    JsonNode flush(JsonNode command) {
        try (KafkaProducer<byte[], byte[]> producer = producers.remove(command.get("handle").asText())) {
            producer.flush();
        }
        return Harness.JSON.createObjectNode();
    }

    private static JsonNode send(KafkaProducer<byte[], byte[]> producer, JsonNode command) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (JsonNode record : command.get("records")) {
            List<Header> headers = new ArrayList<>();
            record.get("headers")
                    .forEach(header -> headers.add(new RecordHeader(header.get(0).asText(), bytes(header.get(1)))));
            sent.add(producer.send(new ProducerRecord<>(
                    command.get("topic").asText(),
                    command.hasNonNull("partition") ? command.get("partition").asInt() : null,
                    record.hasNonNull("timestamp") ? record.get("timestamp").asLong() : null,
                    bytes(record.get("key")),
                    bytes(record.get("value")),
                    headers)));
        }
        producer.flush();
        ArrayNode answers = Harness.JSON.createArrayNode();
        for (Future<RecordMetadata> future : sent) {
            RecordMetadata metadata = future.get();
            answers.addObject()
                    .put("offset", metadata.hasOffset() ? metadata.offset() : -1)
                    .put("partition", metadata.partition())
                    .put("timestamp", metadata.timestamp());
        }
        return Harness.JSON.createObjectNode().set("sent", answers);
    }

    JsonNode consume(JsonNode command) {
        TopicPartition partition = partition(command);
        int count = command.get("count").asInt();
        ArrayNode answers = Harness.JSON.createArrayNode();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(command)) {
            consumer.assign(List.of(partition));
            seek(consumer, partition, command.get("start"));
            long deadline = System.currentTimeMillis() + command.get("timeout_ms").asLong();
            while (answers.size() < count && System.currentTimeMillis() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    answers.add(record(record));
                }
            }
        }
        return Harness.JSON.createObjectNode().set("records", answers);
    }

    JsonNode positions(JsonNode command) {
        TopicPartition partition = partition(command);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(command)) {
            ObjectNode answer = Harness.JSON.createObjectNode();
            answer.put("beginning", consumer.beginningOffsets(List.of(partition)).get(partition));
            answer.put("end", consumer.endOffsets(List.of(partition)).get(partition));
            if (command.hasNonNull("timestamp")) {
                OffsetAndTimestamp found = consumer.offsetsForTimes(
                                Map.of(partition, command.get("timestamp").asLong()))
                        .get(partition);
                answer.put("offset", found == null ? null : found.offset());
                answer.put("timestamp", found == null ? null : found.timestamp());
            }
            return answer;
        }
    }

    private static void seek(KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition, JsonNode start) {
        String kind = start.get(0).asText();
        long value = start.get(1).asLong();
        if (kind.equals("beginning")) {
            consumer.seekToBeginning(List.of(partition));
        } else if (kind.equals("end")) {
            consumer.seekToEnd(List.of(partition));
        } else if (kind.equals("tail")) {
            consumer.seek(partition, consumer.endOffsets(List.of(partition)).get(partition) - value);
        } else if (kind.equals("timestamp")) {
            consumer.seek(partition, consumer.offsetsForTimes(Map.of(partition, value)).get(partition).offset());
        } else if (start.size() > 2) { // with a leader epoch the consumer asks OffsetForLeaderEpoch before it fetches
            consumer.seek(partition, new OffsetAndMetadata(value, Optional.of(start.get(2).asInt()), ""));
        } else {
            consumer.seek(partition, value);
        }
    }

    private static ObjectNode record(ConsumerRecord<byte[], byte[]> record) {
        ObjectNode answer = Harness.JSON
                .createObjectNode()
                .put("offset", record.offset())
                .put("timestamp", record.timestamp())
                .put("timestamp_type", record.timestampType().name)
                .put("key", text(record.key()))
                .put("value", text(record.value()))
                .put("leader_epoch", record.leaderEpoch().orElse(-1));
        ArrayNode headers = answer.putArray("headers");
        record.headers().forEach(header -> headers.addArray().add(header.key()).add(text(header.value())));
        return answer;
    }

    private static KafkaConsumer<byte[], byte[]> consumer(JsonNode command) {
        return new KafkaConsumer<>(properties(command), new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static TopicPartition partition(JsonNode command) {
        return new TopicPartition(command.get("topic").asText(), command.get("partition").asInt());
    }

    static Properties properties(JsonNode command) {
        Properties properties = new Properties();
        command.get("config").properties().forEach(entry -> properties.put(entry.getKey(), entry.getValue().asText()));
        return properties;
    }

    private static byte[] bytes(JsonNode base64) {
        return base64 == null || base64.isNull() ? null : Base64.getDecoder().decode(base64.asText());
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }
}
