import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Kafka's own assignors, asked as a group's leader asks them: subscriptions come in, and assignments go out, as the bytes
 * that members exchange. A command per line: {"op": "assign", "assignor", "counts", "members": {id: {"metadata", "instance"}}},
 * or {"op": "join", "assignor", "topics", "assigned", "generation"}: the subscription of a member that was assigned so.
 */
public final class Assignors {
    private static final HexFormat HEX = HexFormat.of();
    private static final Node NODE = new Node(0, "localhost", 9092);

    private Assignors() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        BufferedReader in =
                new BufferedReader(new InputStreamReader(new FileInputStream(FileDescriptor.in), StandardCharsets.UTF_8));
        System.setOut(System.err);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode answer;
            try {
                JsonNode command = Harness.JSON.readTree(line);
                answer = command.get("op").asText().equals("assign") ? assign(command) : join(command);
            } catch (Throwable error) { // an answer for the test that asked, whatever went wrong
                answer = Harness.error(error);
            }
            out.println(Harness.JSON.writeValueAsString(answer));
        }
    }

    private static ConsumerPartitionAssignor named(String name) {
        switch (name) {
            case "range":
                return new RangeAssignor();
            case "roundrobin":
                return new RoundRobinAssignor();
            case "sticky":
                return new StickyAssignor();
            default:
                return new CooperativeStickyAssignor();
        }
    }

    private static JsonNode assign(JsonNode command) {
        List<PartitionInfo> partitions = new ArrayList<>();
        command.get("counts").properties().forEach(topic -> {
            for (int index = 0; index < topic.getValue().asInt(); index++) {
                partitions.add(new PartitionInfo(topic.getKey(), index, NODE, new Node[] {NODE}, new Node[] {NODE}));
            }
        });
        Map<String, Subscription> members = new HashMap<>();
        command.get("members").properties().forEach(member -> {
            ByteBuffer metadata = ByteBuffer.wrap(HEX.parseHex(member.getValue().get("metadata").asText()));
            Subscription subscription = ConsumerProtocol.deserializeSubscription(metadata);
            subscription.setGroupInstanceId(Optional.ofNullable(member.getValue().get("instance").textValue()));
            members.put(member.getKey(), subscription);
        });
        Cluster cluster = new Cluster("cluster", List.of(NODE), partitions, Set.of(), Set.of());
        ObjectNode answer = Harness.JSON.createObjectNode();
        named(command.get("assignor").asText())
                .assign(cluster, new GroupSubscription(members))
                .groupAssignment()
                .forEach((member, assignment) -> answer.put(member, hex(ConsumerProtocol.serializeAssignment(assignment))));
        return answer;
    }

    private static JsonNode join(JsonNode command) {
        List<TopicPartition> assigned = new ArrayList<>();
        ((ArrayNode) command.get("assigned"))
                .forEach(one -> assigned.add(new TopicPartition(one.get(0).asText(), one.get(1).asInt())));
        List<String> topics = new ArrayList<>();
        command.get("topics").forEach(topic -> topics.add(topic.asText()));
        int generation = command.get("generation").asInt();
        ConsumerPartitionAssignor assignor = named(command.get("assignor").asText());
        assignor.onAssignment(new Assignment(assigned), new ConsumerGroupMetadata("g", generation, "m", Optional.empty()));
        boolean keeps = assignor instanceof CooperativeStickyAssignor;
        Subscription subscription = new Subscription(
                topics,
                assignor.subscriptionUserData(Set.copyOf(topics)),
                keeps ? assigned : List.of(),
                generation,
                Optional.empty());
        ObjectNode answer = Harness.JSON.createObjectNode();
        return answer.put("metadata", hex(ConsumerProtocol.serializeSubscription(subscription)));
    }

    private static String hex(ByteBuffer bytes) {
        byte[] copy = new byte[bytes.remaining()];
        bytes.duplicate().get(copy);
        return HEX.formatHex(copy);
    }
}
