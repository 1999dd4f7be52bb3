import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** One consumer in a group: a thread polls it, and does what it is told between two polls. */
final class GroupMember implements ConsumerRebalanceListener {
    final String handle = UUID.randomUUID().toString();
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final BlockingQueue<FutureTask<JsonNode>> work = new LinkedBlockingQueue<>();
    private final ArrayNode received = Harness.JSON.createArrayNode();
    private final ArrayNode events = Harness.JSON.createArrayNode();
    private final ArrayNode errors = Harness.JSON.createArrayNode();
    private final Thread thread = new Thread(this::poll);
    private Set<TopicPartition> assignment = new HashSet<>();
    private volatile CloseOptions ending;

    GroupMember(JsonNode command) {
        consumer = new KafkaConsumer<>(
                Records.properties(command), new ByteArrayDeserializer(), new ByteArrayDeserializer());
        if (!command.hasNonNull("pattern")) {
            List<String> topics = new ArrayList<>();
            command.get("topics").forEach(topic -> topics.add(topic.asText()));
            consumer.subscribe(topics, this);
        } else if (command.get("config").path("group.protocol").asText().equals("consumer")) {
            consumer.subscribe(new SubscriptionPattern(command.get("pattern").asText()), this);
        } else {
            consumer.subscribe(Pattern.compile(command.get("pattern").asText()), this);
        }
        thread.setDaemon(true);
        thread.start();
    }

    private void poll() {
        try {
            while (ending == null) {
                for (FutureTask<JsonNode> task = work.poll(); task != null; task = work.poll()) {
                    task.run();
                }
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(50))) {
                    String value = new String(record.value(), StandardCharsets.UTF_8);
                    synchronized (this) {
                        received.addArray().add(record.topic()).add(record.partition()).add(record.offset()).add(value);
                    }
                }
                synchronized (this) {
                    assignment = new HashSet<>(consumer.assignment());
                }
            }
        } catch (Throwable error) { // the test sees it in the state
            synchronized (this) {
                errors.add(error.toString());
            }
        } finally {
            consumer.close(ending == null ? CloseOptions.timeout(Duration.ofSeconds(5)) : ending);
        }
    }

    JsonNode end(boolean leave) throws Exception {
        CloseOptions.GroupMembershipOperation operation =
                leave ? CloseOptions.GroupMembershipOperation.DEFAULT : CloseOptions.GroupMembershipOperation.REMAIN_IN_GROUP;
        ending = CloseOptions.groupMembershipOperation(operation).withTimeout(Duration.ofSeconds(10));
        thread.join(20_000);
        return Harness.JSON.createObjectNode().put("ended", !thread.isAlive());
    }

    JsonNode run(JsonNode command) throws Exception {
        switch (command.get("op").asText()) {
            case "state":
                return state();
            case "commit":
                return inThread(() -> commit(command.get("offsets")));
            case "commitSoon":
                return inThread(() -> {
                    command.get("offsets").forEach(one -> consumer.commitAsync(offsets(one), null));
                    return done();
                });
            case "committed":
                return inThread(() -> committed(places(command.get("places"))));
            case "seek":
                return inThread(() -> {
                    consumer.seek(place(command.get("place")), command.get("offset").asLong());
                    return done();
                });
            case "pause":
                return inThread(() -> {
                    consumer.pause(places(command.get("places")));
                    return done();
                });
            case "resume":
                return inThread(() -> {
                    consumer.resume(places(command.get("places")));
                    return done();
                });
            default:
                throw new IllegalArgumentException("no such op: " + command);
        }
    }

    private JsonNode inThread(Callable<JsonNode> what) throws Exception {
        FutureTask<JsonNode> task = new FutureTask<>(what);
        work.add(task);
        return task.get(30, TimeUnit.SECONDS);
    }

    private synchronized JsonNode state() {
        ObjectNode answer = Harness.JSON.createObjectNode();
        answer.set("received", received.deepCopy());
        answer.set("events", events.deepCopy());
        answer.set("errors", errors.deepCopy());
        answer.set("assignment", array(assignment));
        received.removeAll();
        events.removeAll();
        errors.removeAll();
        return answer;
    }

    private JsonNode commit(JsonNode offsets) {
        if (offsets.isNull()) {
            consumer.commitSync(Duration.ofSeconds(20));
        } else {
            consumer.commitSync(offsets(offsets), Duration.ofSeconds(20));
        }
        return done();
    }

    private JsonNode committed(Collection<TopicPartition> places) {
        ObjectNode answer = Harness.JSON.createObjectNode();
        ArrayNode found = answer.putArray("committed");
        consumer.committed(new HashSet<>(places), Duration.ofSeconds(20)).forEach((place, offset) -> {
            ArrayNode one = found.addArray().add(place.topic()).add(place.partition());
            if (offset == null) {
                one.addNull();
            } else {
                one.add(offset.offset());
            }
        });
        return answer;
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        event("assigned", partitions);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        event("revoked", partitions);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        event("lost", partitions);
    }

    private synchronized void event(String kind, Collection<TopicPartition> partitions) {
        events.addArray().add(kind).add(array(partitions));
    }

    private static JsonNode done() {
        return Harness.JSON.createObjectNode();
    }

    static ArrayNode array(Collection<TopicPartition> partitions) {
        ArrayNode answer = Harness.JSON.createArrayNode();
        partitions.forEach(one -> answer.addArray().add(one.topic()).add(one.partition()));
        return answer;
    }

    static Map<TopicPartition, OffsetAndMetadata> offsets(JsonNode offsets) {
        Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>();
        offsets.forEach(one -> found.put(place(one), new OffsetAndMetadata(one.get(2).asLong())));
        return found;
    }

    static TopicPartition place(JsonNode place) {
        return new TopicPartition(place.get(0).asText(), place.get(1).asInt());
    }

    static List<TopicPartition> places(JsonNode places) {
        List<TopicPartition> found = new ArrayList<>();
        places.forEach(place -> found.add(place(place)));
        return found;
    }
}
