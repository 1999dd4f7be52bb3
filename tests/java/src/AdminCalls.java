import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigsOptions;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreatePartitionsOptions;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.FeatureMetadata;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.TopicListing;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;

/** The calls of the Java Admin client, one command each: {"op": "admin", "call", "config", and the call's arguments}. */
final class AdminCalls {
    private AdminCalls() {}

    static JsonNode run(JsonNode command) throws Exception {
        try (Admin admin = Admin.create(Records.properties(command))) {
            switch (command.get("call").asText()) {
                case "createTopic":
                    return createTopic(admin, command);
                case "deleteTopic":
                    return deleteTopic(admin, command);
                case "createPartitions":
                    return createPartitions(admin, command);
                case "deleteRecords":
                    return deleteRecords(admin, command);
                case "describeConfigs":
                    return describeConfigs(admin, command);
                case "incrementalAlterConfigs":
                    return incrementalAlterConfigs(admin, command);
                case "describeCluster":
                    return describeCluster(admin);
                case "describeTopic":
                    return describeTopic(admin, command);
                case "listTopics":
                    return listTopics(admin);
                case "describeLogDirs":
                    return describeLogDirs(admin);
                case "listOffsets":
                    return listOffsets(admin, command);
                case "describeFeatures":
                    return describeFeatures(admin);
                default:
                    throw new IllegalArgumentException("no such call: " + command);
            }
        }
    }

    private static ObjectNode object() {
        return Harness.JSON.createObjectNode();
    }

    private static String topic(JsonNode command) {
        return command.get("topic").asText();
    }

    private static JsonNode createTopic(Admin admin, JsonNode command) throws Exception {
        NewTopic topic;
        if (command.has("assignments")) {
            Map<Integer, List<Integer>> assignments = new HashMap<>();
            command.get("assignments").properties().forEach(entry -> {
                List<Integer> replicas = new ArrayList<>();
                entry.getValue().forEach(replica -> replicas.add(replica.asInt()));
                assignments.put(Integer.valueOf(entry.getKey()), replicas);
            });
            topic = new NewTopic(topic(command), assignments);
        } else {
            topic = new NewTopic(topic(command), command.get("partitions").asInt(), (short) command.get("replication").asInt());
        }
        Map<String, String> configs = new HashMap<>();
        command.path("configs").properties().forEach(entry -> configs.put(entry.getKey(), entry.getValue().asText()));
        topic.configs(configs);
        CreateTopicsOptions options = new CreateTopicsOptions().validateOnly(command.path("validateOnly").asBoolean());
        CreateTopicsResult result = admin.createTopics(List.of(topic), options);
        result.all().get();
        ObjectNode answer = object();
        if (!options.shouldValidateOnly()) { // Apache Kafka answers the zero id otherwise, and the client throws on it
            answer.put("topicId", result.topicId(topic(command)).get().toString());
        }
        return answer.put("partitions", result.numPartitions(topic(command)).get())
                .put("replication", result.replicationFactor(topic(command)).get())
                .set("configs", entries(result.config(topic(command)).get()));
    }

    private static JsonNode deleteTopic(Admin admin, JsonNode command) throws Exception {
        TopicCollection topics = command.has("topicId")
                ? TopicCollection.ofTopicIds(List.of(Uuid.fromString(command.get("topicId").asText())))
                : TopicCollection.ofTopicNames(List.of(topic(command)));
        admin.deleteTopics(topics).all().get();
        return object();
    }

    private static JsonNode createPartitions(Admin admin, JsonNode command) throws Exception {
        NewPartitions partitions = NewPartitions.increaseTo(command.get("partitions").asInt());
        CreatePartitionsOptions options =
                new CreatePartitionsOptions().validateOnly(command.path("validateOnly").asBoolean());
        admin.createPartitions(Map.of(topic(command), partitions), options).all().get();
        return object();
    }

    private static JsonNode deleteRecords(Admin admin, JsonNode command) throws Exception {
        TopicPartition partition = new TopicPartition(topic(command), command.get("partition").asInt());
        RecordsToDelete before = RecordsToDelete.beforeOffset(command.get("before").asLong());
        long low = admin.deleteRecords(Map.of(partition, before)).lowWatermarks().get(partition).get().lowWatermark();
        return object().put("lowWatermark", low);
    }

    private static ConfigResource resource(JsonNode command) {
        return new ConfigResource(
                ConfigResource.Type.valueOf(command.get("resourceType").asText()), command.get("resource").asText());
    }

    private static JsonNode describeConfigs(Admin admin, JsonNode command) throws Exception {
        DescribeConfigsOptions options = new DescribeConfigsOptions()
                .includeSynonyms(command.path("synonyms").asBoolean())
                .includeDocumentation(command.path("documentation").asBoolean());
        ConfigResource resource = resource(command);
        return entries(admin.describeConfigs(List.of(resource), options).all().get().get(resource));
    }

    private static ObjectNode entries(Config config) {
        ObjectNode answer = object();
        for (ConfigEntry entry : config.entries()) {
            ObjectNode node = answer.putObject(entry.name())
                    .put("value", entry.value())
                    .put("source", entry.source().name())
                    .put("type", String.valueOf(entry.type()))
                    .put("readOnly", entry.isReadOnly())
                    .put("sensitive", entry.isSensitive())
                    .put("documentation", entry.documentation());
            ArrayNode synonyms = node.putArray("synonyms");
            entry.synonyms().forEach(synonym -> synonyms.add(synonym.source().name()));
        }
        return answer;
    }

    private static JsonNode incrementalAlterConfigs(Admin admin, JsonNode command) throws Exception {
        Collection<AlterConfigOp> operations = new ArrayList<>();
        for (JsonNode change : command.get("changes")) { // [["SET", name, value], ["DELETE", name, null], ...]
            String value = change.get(2).isNull() ? null : change.get(2).asText();
            operations.add(new AlterConfigOp(
                    new ConfigEntry(change.get(1).asText(), value),
                    AlterConfigOp.OpType.valueOf(change.get(0).asText())));
        }
        AlterConfigsOptions options = new AlterConfigsOptions().validateOnly(command.path("validateOnly").asBoolean());
        admin.incrementalAlterConfigs(Map.of(resource(command), operations), options).all().get();
        return object();
    }

    private static JsonNode describeCluster(Admin admin) throws Exception {
        DescribeClusterResult result = admin.describeCluster();
        ObjectNode answer = object()
                .put("clusterId", result.clusterId().get())
                .put("controller", result.controller().get().id());
        ArrayNode nodes = answer.putArray("nodes");
        for (Node node : result.nodes().get()) {
            nodes.addObject().put("id", node.id()).put("host", node.host()).put("port", node.port());
        }
        return answer;
    }

    private static JsonNode describeTopic(Admin admin, JsonNode command) throws Exception {
        KafkaFuture<TopicDescription> future;
        if (command.has("topicId")) {
            Uuid id = Uuid.fromString(command.get("topicId").asText());
            future = admin.describeTopics(TopicCollection.ofTopicIds(List.of(id))).topicIdValues().get(id);
        } else {
            future = admin.describeTopics(List.of(topic(command))).topicNameValues().get(topic(command));
        }
        TopicDescription description = future.get();
        ObjectNode answer = object()
                .put("name", description.name())
                .put("topicId", description.topicId().toString())
                .put("internal", description.isInternal());
        ArrayNode partitions = answer.putArray("partitions");
        for (TopicPartitionInfo partition : description.partitions()) {
            partitions
                    .addObject()
                    .put("partition", partition.partition())
                    .put("leader", partition.leader().id())
                    .put("replicas", partition.replicas().size())
                    .put("isr", partition.isr().size());
        }
        return answer;
    }

    private static JsonNode listTopics(Admin admin) throws Exception {
        ObjectNode answer = object();
        for (TopicListing listing : admin.listTopics().listings().get()) {
            answer.put(listing.name(), listing.topicId().toString());
        }
        return answer;
    }

    private static JsonNode describeLogDirs(Admin admin) throws Exception {
        ObjectNode answer = object();
        Map<String, LogDirDescription> directories = admin.describeLogDirs(List.of(0)).allDescriptions().get().get(0);
        directories.forEach((path, description) -> {
            ObjectNode node = answer.putObject(path);
            node.put("totalBytes", description.totalBytes().orElse(-1));
            node.put("usableBytes", description.usableBytes().orElse(-1));
            ObjectNode replicas = node.putObject("replicas");
            description.replicaInfos().forEach((partition, info) -> replicas.put(partition.toString(), info.size()));
        });
        return answer;
    }

    private static JsonNode describeFeatures(Admin admin) throws Exception {
        FeatureMetadata features = admin.describeFeatures().featureMetadata().get();
        ObjectNode answer = object().put("epoch", features.finalizedFeaturesEpoch().orElse(-1L));
        ObjectNode levels = answer.putObject("finalized");
        features.finalizedFeatures().forEach((name, range) -> levels.put(name, range.maxVersionLevel()));
        return answer;
    }

    private static JsonNode listOffsets(Admin admin, JsonNode command) throws Exception {
        TopicPartition partition = new TopicPartition(topic(command), command.get("partition").asInt());
        OffsetSpec spec = spec(command.get("spec"));
        ListOffsetsResultInfo info = admin.listOffsets(Map.of(partition, spec)).partitionResult(partition).get();
        return object()
                .put("offset", info.offset())
                .put("timestamp", info.timestamp())
                .put("leaderEpoch", info.leaderEpoch().orElse(-1));
    }

    private static OffsetSpec spec(JsonNode spec) {
        if (spec.isNumber()) {
            return OffsetSpec.forTimestamp(spec.asLong());
        }
        switch (spec.asText()) {
            case "earliest":
                return OffsetSpec.earliest();
            case "latest":
                return OffsetSpec.latest();
            case "earliestLocal":
                return OffsetSpec.earliestLocal();
            case "latestTiered":
                return OffsetSpec.latestTiered();
            default:
                return OffsetSpec.maxTimestamp();
        }
    }
}
