package org.apache.kafka.streams;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.test.TestRecord;

/**
 * TopologyTestDriver that commits when it is told to, not after each record: so that the record cache of Kafka Streams holds
 * something back. In its package, and by reflection, because what it is made of is not public.
 */
public final class StreamsCommits {
    private final TopologyTestDriver driver;
    private final Time time;
    private final Map<?, ?> globals;

    public StreamsCommits(TopologyTestDriver driver) throws Exception {
        this.driver = driver;
        this.time = (Time) field("mockWallClockTime").get(driver);
        this.globals = (Map<?, ?>) field("globalPartitionsByInputTopic").get(driver);
    }

    public void pipe(String topic, TestRecord<byte[], byte[]> record) throws Exception {
        Object[] what = {record.timestamp(), record.key(), record.value(), record.headers()};
        TopicPartition partition = (TopicPartition) call("getInputTopicOrPatternPartition", topic);
        if (partition != null) {
            call("enqueueTaskRecord", topic, partition, what[0], what[1], what[2], what[3]);
            work();
        }
        if (globals.get(topic) != null) {
            call("processGlobalRecord", globals.get(topic), what[0], what[1], what[2], what[3]);
        }
    }

    /** Until no record waits in an internal topic. */
    public void commit() throws Exception {
        if (driver.task == null) {
            return;
        }
        while (true) {
            call("commit", driver.task.prepareCommit(true));
            driver.task.postCommit(true);
            call("captureOutputsAndReEnqueueInternalResults");
            if (!driver.task.hasRecordsQueued()) {
                return;
            }
            work();
        }
    }

    private void work() throws Exception {
        call("captureOutputsAndReEnqueueInternalResults");
        if (driver.task == null) {
            return;
        }
        driver.task.resumePollingForPartitionsWithAvailableSpace();
        driver.task.updateLags();
        while (driver.task.hasRecordsQueued() && driver.task.isProcessable(time.milliseconds())) {
            driver.task.process(time.milliseconds());
            driver.task.maybePunctuateStreamTime();
            call("captureOutputsAndReEnqueueInternalResults");
        }
    }

    private static Field field(String name) throws Exception {
        Field found = TopologyTestDriver.class.getDeclaredField(name);
        found.setAccessible(true);
        return found;
    }

    private Object call(String name, Object... arguments) throws Exception {
        for (Method method : TopologyTestDriver.class.getDeclaredMethods()) {
            if (method.getName().equals(name) && method.getParameterCount() == arguments.length) {
                method.setAccessible(true);
                try {
                    return method.invoke(driver, arguments);
                } catch (InvocationTargetException error) {
                    throw error.getCause() instanceof Exception ? (Exception) error.getCause() : error;
                }
            }
        }
        throw new NoSuchMethodException(name);
    }
}
