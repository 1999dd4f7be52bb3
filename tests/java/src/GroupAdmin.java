import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.common.TopicPartition;

/** The Admin calls about groups and transactions: {"op": "groupAdmin", "call", "config", and the call's arguments}. */
final class GroupAdmin {
    private GroupAdmin() {}

    static JsonNode run(JsonNode command) throws Exception {
        try (Admin admin = Admin.create(Records.properties(command))) {
            switch (command.get("call").asText()) {
                case "listGroups":
                    return listGroups(admin);
                case "describeGroup":
                    return describeGroup(admin, command.get("group").asText());
                case "deleteGroup":
                    admin.deleteConsumerGroups(List.of(command.get("group").asText())).all().get();
                    return object();
                case "offsets":
                    return offsets(admin, command.get("group").asText());
                case "alterOffsets":
                    admin.alterConsumerGroupOffsets(
                                    command.get("group").asText(), GroupMember.offsets(command.get("offsets")))
                            .all()
                            .get();
                    return object();
                case "deleteOffsets":
                    Set<TopicPartition> places = new HashSet<>(GroupMember.places(command.get("places")));
                    admin.deleteConsumerGroupOffsets(command.get("group").asText(), places).all().get();
                    return object();
                case "removeMember":
                    MemberToRemove member = new MemberToRemove(command.get("instance").asText());
                    admin.removeMembersFromConsumerGroup(
                                    command.get("group").asText(),
                                    new RemoveMembersFromConsumerGroupOptions(List.of(member)))
                            .all()
                            .get();
                    return object();
                default:
                    return transactions(admin, command);
            }
        }
    }

    private static JsonNode transactions(Admin admin, JsonNode command) throws Exception {
        switch (command.get("call").asText()) {
            case "listTransactions":
                ObjectNode answer = object();
                admin.listTransactions().all().get().forEach(one -> answer.putObject(one.transactionalId())
                        .put("producerId", one.producerId())
                        .put("state", one.state().toString()));
                return answer;
            case "describeTransaction":
                String id = command.get("id").asText();
                TransactionDescription found = admin.describeTransactions(List.of(id)).description(id).get();
                ObjectNode described = object()
                        .put("coordinator", found.coordinatorId())
                        .put("state", found.state().toString())
                        .put("producerId", found.producerId())
                        .put("producerEpoch", found.producerEpoch())
                        .put("timeoutMs", found.transactionTimeoutMs())
                        .put("startMs", found.transactionStartTimeMs().orElse(-1));
                described.set("partitions", GroupMember.array(found.topicPartitions()));
                return described;
            case "describeProducers":
                TopicPartition place = GroupMember.place(command.get("place"));
                ArrayNode producers = Harness.JSON.createArrayNode();
                for (ProducerState one : admin.describeProducers(List.of(place)).partitionResult(place).get().activeProducers()) {
                    producers
                            .addObject()
                            .put("producerId", one.producerId())
                            .put("producerEpoch", one.producerEpoch())
                            .put("lastSequence", one.lastSequence())
                            .put("coordinatorEpoch", one.coordinatorEpoch().orElse(-1))
                            .put("transactionStart", one.currentTransactionStartOffset().orElse(-1));
                }
                return object().set("producers", producers);
            case "abortTransaction":
                AbortTransactionSpec spec = new AbortTransactionSpec(
                        GroupMember.place(command.get("place")),
                        command.get("producerId").asLong(),
                        (short) command.get("producerEpoch").asInt(),
                        command.get("coordinatorEpoch").asInt());
                admin.abortTransaction(spec).all().get();
                return object();
            case "fenceProducers":
                admin.fenceProducers(List.of(command.get("id").asText())).all().get();
                return object();
            default:
                throw new IllegalArgumentException("no such call: " + command);
        }
    }

    private static ObjectNode object() {
        return Harness.JSON.createObjectNode();
    }

    private static JsonNode listGroups(Admin admin) throws Exception {
        ObjectNode answer = object();
        for (GroupListing group : admin.listGroups().all().get()) {
            answer.putObject(group.groupId())
                    .put("type", group.type().map(Object::toString).orElse(null))
                    .put("protocol", group.protocol())
                    .put("state", group.groupState().map(Object::toString).orElse(null));
        }
        return answer;
    }

    private static JsonNode describeGroup(Admin admin, String group) throws Exception {
        ConsumerGroupDescription found =
                admin.describeConsumerGroups(List.of(group)).describedGroups().get(group).get();
        ObjectNode answer = object()
                .put("group", found.groupId())
                .put("state", found.groupState().toString())
                .put("type", found.type().toString())
                .put("assignor", found.partitionAssignor())
                .put("coordinator", found.coordinator().id());
        ArrayNode members = answer.putArray("members");
        for (MemberDescription member : found.members()) {
            members.addObject()
                    .put("memberId", member.consumerId())
                    .put("instance", member.groupInstanceId().orElse(null))
                    .put("clientId", member.clientId())
                    .put("host", member.host())
                    .set("assignment", GroupMember.array(member.assignment().topicPartitions()));
        }
        return answer;
    }

    private static JsonNode offsets(Admin admin, String group) throws Exception {
        ArrayNode found = Harness.JSON.createArrayNode();
        admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().forEach((place, offset) -> {
            if (offset != null) {
                found.addArray().add(place.topic()).add(place.partition()).add(offset.offset());
            }
        });
        return object().set("offsets", found);
    }
}
