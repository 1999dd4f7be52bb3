package org.apache.kafka.streams.processor.internals;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.errors.LogAndFailExceptionHandler;
import org.apache.kafka.streams.processor.FailOnInvalidTimestamp;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.internals.metrics.StreamsMetricsImpl;

/**
 * The order in which a task takes buffered records of several inputs: PartitionGroup's own. In its package, because it is not
 * public. An event is {"add": input, "timestamps": [...]} or {"take": n}; the answer has [input, timestamp] for each record taken.
 */
public final class MergeOrder {
    private MergeOrder() {}

    public static ObjectNode of(int inputs, JsonNode events) {
        LogContext log = new LogContext();
        Metrics metrics = new Metrics();
        Sensor lateness = metrics.sensor("lateness");
        Sensor enforced = metrics.sensor("enforced");
        Map<TopicPartition, RecordQueue> queues = new LinkedHashMap<>();
        InternalProcessorContext<?, ?> context = context(new StreamsMetricsImpl(metrics, "oracle", Time.SYSTEM));
        for (int i = 0; i < inputs; i++) {
            TopicPartition partition = new TopicPartition("input-" + i, 0);
            SourceNode<byte[], byte[]> source =
                    new SourceNode<>(partition.topic(), new ByteArrayDeserializer(), new ByteArrayDeserializer());
            queues.put(partition, new RecordQueue(partition, source, new FailOnInvalidTimestamp(), new LogAndFailExceptionHandler(),
                    context, log));
        }
        PartitionGroup group = new PartitionGroup(log, queues, partition -> OptionalLong.of(0), lateness, enforced, 0);
        ObjectNode answer = new ObjectMapper().createObjectNode();
        ArrayNode order = answer.putArray("order");
        long[] offsets = new long[inputs];
        for (JsonNode event : events) {
            if (event.has("add")) {
                int input = event.get("add").asInt();
                TopicPartition partition = new TopicPartition("input-" + input, 0);
                List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
                for (JsonNode timestamp : event.get("timestamps")) {
                    records.add(new ConsumerRecord<>(partition.topic(), 0, offsets[input]++, timestamp.asLong(), TimestampType.CREATE_TIME,
                            0, 0, new byte[0], new byte[0], new RecordHeaders(), java.util.Optional.empty()));
                }
                group.addRawRecords(partition, records);
            } else {
                for (int i = 0; i < event.get("take").asInt(); i++) {
                    AbstractPartitionGroup.RecordInfo info = new AbstractPartitionGroup.RecordInfo();
                    StampedRecord record = group.nextRecord(info, 0);
                    if (record != null) {
                        order.addArray().add(Integer.parseInt(record.topic().substring(6))).add(record.offset()).add(record.timestamp);
                    }
                }
            }
        }
        answer.put("stream_time", group.streamTime());
        metrics.close();
        return answer;
    }

    /** What a queue asks of its context: the name of the task, and where figures go. */
    private static InternalProcessorContext<?, ?> context(StreamsMetricsImpl metrics) {
        return (InternalProcessorContext<?, ?>) Proxy.newProxyInstance(MergeOrder.class.getClassLoader(),
                new Class<?>[] {InternalProcessorContext.class}, (proxy, method, arguments) -> {
                    switch (method.getName()) {
                        case "metrics":
                            return metrics;
                        case "taskId":
                            return new TaskId(0, 0);
                        default:
                            throw new UnsupportedOperationException(method.toString());
                    }
                });
    }
}
