import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Map;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.ValueTimestampHeaders;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.WindowStore;

/** What stands in the stores at the end: [key, value, timestamp] each, the timestamp null in stores that have none. */
@SuppressWarnings({"unchecked", "rawtypes"})
final class StreamsStores {
    private StreamsStores() {}

    static void read(TopologyTestDriver driver, ObjectNode answer) {
        for (Map.Entry<String, StateStore> entry : driver.getAllStateStores().entrySet()) {
            StateStore store = entry.getValue();
            ObjectNode described = answer.putObject(entry.getKey());
            if (store instanceof KeyValueStore) {
                described.put("kind", "key_value");
                all(((KeyValueStore<Object, Object>) store).all(), described.putArray("entries"));
            } else if (store instanceof WindowStore) {
                described.put("kind", "window");
                all((KeyValueIterator) ((WindowStore<Object, Object>) store).all(), described.putArray("entries"));
            } else if (store instanceof SessionStore) {
                described.put("kind", "session");
                ArrayNode entries = described.putArray("entries");
                all((KeyValueIterator) ((SessionStore<Object, Object>) store).fetch((Object) null, (Object) null), entries);
            } else if (store instanceof VersionedKeyValueStore) {
                described.put("kind", "versioned");
                ArrayNode entries = described.putArray("entries");
                for (String key : "a b c d e f".split(" ")) { // there is no way to ask for all
                    VersionedRecord<Object> found = ((VersionedKeyValueStore<Object, Object>) store).get(key);
                    if (found != null) {
                        value(entries.addArray().add(key), found.value()).add(found.timestamp());
                    }
                }
            } else {
                described.put("kind", "buffer");
            }
        }
    }

    private static void all(KeyValueIterator<Object, Object> iterator, ArrayNode entries) {
        try (iterator) {
            while (iterator.hasNext()) {
                KeyValue<Object, Object> entry = iterator.next();
                ArrayNode row = entries.addArray().add(key(entry.key));
                if (entry.value instanceof ValueAndTimestamp) {
                    ValueAndTimestamp<Object> stamped = (ValueAndTimestamp<Object>) entry.value;
                    value(row, stamped.value()).add(stamped.timestamp());
                } else if (entry.value instanceof ValueTimestampHeaders) {
                    ValueTimestampHeaders<Object> stamped = (ValueTimestampHeaders<Object>) entry.value;
                    value(row, stamped.value()).add(stamped.timestamp());
                } else {
                    value(row, entry.value).addNull();
                }
            }
        }
    }

    private static String key(Object key) {
        return key instanceof Windowed || key instanceof String ? StreamsFunctions.keyText(key) : key.getClass().getSimpleName() + " " + key;
    }

    private static ArrayNode value(ArrayNode row, Object value) {
        if (value instanceof Long) {
            return row.add((Long) value);
        }
        if (value instanceof String) {
            return row.add((String) value);
        }
        return value == null ? row.addNull() : row.add(value.getClass().getSimpleName() + " " + value);
    }
}
