import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Transactional producers, each kept by its handle: {"op": "transaction", "handle", "do": init|begin|send|offsets|...}. */
final class Transactions {
    private final Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();

    JsonNode run(JsonNode command) throws Exception {
        String handle = command.get("handle").asText();
        KafkaProducer<byte[], byte[]> producer = producers.get(handle);
        switch (command.get("do").asText()) {
            case "open":
                producers.put(
                        handle,
                        new KafkaProducer<>(
                                Records.properties(command), new ByteArraySerializer(), new ByteArraySerializer()));
                break;
            case "init":
                producer.initTransactions();
                break;
            case "begin":
                producer.beginTransaction();
                break;
            case "send":
                byte[] value = command.get("value").asText().getBytes(StandardCharsets.UTF_8);
                producer.send(new ProducerRecord<>(
                                command.get("topic").asText(), command.get("partition").asInt(), null, value))
                        .get();
                break;
            case "offsets":
                producer.sendOffsetsToTransaction(
                        GroupMember.offsets(command.get("offsets")),
                        new ConsumerGroupMetadata(command.get("group").asText()));
                break;
            case "commit":
                producer.commitTransaction();
                break;
            case "abort":
                producer.abortTransaction();
                break;
            case "close":
                producers.remove(handle).close(Duration.ofSeconds(command.path("seconds").asInt(5)));
                break;
            default:
                throw new IllegalArgumentException("no such thing to do: " + command);
        }
        return Harness.JSON.createObjectNode();
    }
}
