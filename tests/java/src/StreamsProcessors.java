import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.ValueTransformerWithKey;
import org.apache.kafka.streams.kstream.ValueTransformerWithKeySupplier;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.ProcessorContext;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.ContextualFixedKeyProcessor;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;

/** The processors that a case names. */
@SuppressWarnings({"unchecked", "rawtypes"})
final class StreamsProcessors {
    private StreamsProcessors() {}

    static StoreBuilder store(String kind, String name, JsonNode step) {
        if (kind.equals("window")) {
            long retention = step.get("retention").asLong();
            long size = step.get("size").asLong();
            return Stores.windowStoreBuilder(
                    Stores.inMemoryWindowStore(name, Duration.ofMillis(retention), Duration.ofMillis(size), false),
                    StreamsFunctions.keySerde(), new StreamsFunctions.AnySerde());
        }
        if (kind.equals("session")) {
            Duration retention = Duration.ofMillis(step.get("retention").asLong());
            return Stores.sessionStoreBuilder(
                    Stores.persistentSessionStore(name, retention), StreamsFunctions.keySerde(), new StreamsFunctions.AnySerde());
        }
        if (kind.equals("versioned")) {
            Duration history = Duration.ofMillis(step.get("retention").asLong());
            return Stores.versionedKeyValueStoreBuilder(
                    Stores.persistentVersionedKeyValueStore(name, history), StreamsFunctions.keySerde(), new StreamsFunctions.AnySerde());
        }
        return Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore(name), StreamsFunctions.keySerde(), new StreamsFunctions.AnySerde());
    }

    static StreamsBuilder globalStore(StreamsBuilder builder, JsonNode step, Consumed<Object, Object> consumed) {
        String name = step.get("store_name").asText();
        String fn = step.get("fn").asText();
        ProcessorSupplier<Object, Object, Void, Void> supplier = () -> new ContextualProcessor<>() {
            @Override
            public void process(Record<Object, Object> record) {
                if (record.key() == null) {
                    return;
                }
                Object value = record.value();
                if (step.has("other")) {
                    KeyValueStore<Object, Object> other = context().getStateStore(step.get("other").asText());
                    value = StreamsFunctions.cut(StreamsFunctions.text(value) + "/" + StreamsFunctions.text(other.get(record.key())));
                }
                if (step.has("stamped")) {
                    value = StreamsFunctions.cut(StreamsFunctions.text(value) + "@" + record.timestamp());
                }
                KeyValueStore<Object, Object> store = context().getStateStore(name);
                store.put(record.key(), StreamsFunctions.aggregate(fn, record.key(), value, store.get(record.key())));
            }
        };
        return builder.addGlobalStore(store("key_value", name, step), step.get("topic").asText(), consumed, supplier);
    }

    private static String[] stores(JsonNode step) {
        return step.hasNonNull("store_name") ? new String[] {step.get("store_name").asText()} : new String[0];
    }

    static KStream<Object, Object> process(KStream<Object, Object> stream, JsonNode step) {
        return step.hasNonNull("name")
                ? stream.process(() -> processor(step), Named.as(step.get("name").asText()), stores(step))
                : stream.process(() -> processor(step), stores(step));
    }

    static KStream<Object, Object> processValues(KStream<Object, Object> stream, JsonNode step) {
        return step.hasNonNull("name")
                ? stream.processValues(() -> valuesProcessor(step), Named.as(step.get("name").asText()), stores(step))
                : stream.processValues(() -> valuesProcessor(step), stores(step));
    }

    static KTable<Object, Object> transformValues(KTable<Object, Object> table, JsonNode step, Materialized store) {
        String fn = step.get("fn").asText();
        ValueTransformerWithKeySupplier<Object, Object, Object> supplier = () -> new Values(fn);
        Named name = step.hasNonNull("name") ? Named.as(step.get("name").asText()) : null;
        if (store == null) {
            return name == null ? table.transformValues(supplier) : table.transformValues(supplier, name);
        }
        return name == null ? table.transformValues(supplier, store) : table.transformValues(supplier, store, name);
    }

    private static final class Values implements ValueTransformerWithKey<Object, Object, Object> {
        private final String fn;

        Values(String fn) {
            this.fn = fn;
        }

        @Override
        public void init(ProcessorContext context) {}

        @Override
        public Object transform(Object key, Object value) {
            return StreamsFunctions.value(fn, key, value);
        }

        @Override
        public void close() {}
    }

    private static Headers seen(Headers headers, Object key) {
        return new RecordHeaders(headers).add("seen", StreamsFunctions.keyText(key).getBytes(StandardCharsets.UTF_8));
    }

    private static Processor<Object, Object, Object, Object> processor(JsonNode step) {
        switch (step.get("fn").asText()) {
            case "pass":
                return new ContextualProcessor<>() {
                    @Override
                    public void process(Record<Object, Object> record) {
                        context().forward(record);
                    }
                };
            case "headers":
                return new ContextualProcessor<>() {
                    @Override
                    public void process(Record<Object, Object> record) {
                        context().forward(record.withHeaders(seen(record.headers(), record.key())).withTimestamp(record.timestamp() + 1));
                    }
                };
            case "count":
                return new ContextualProcessor<>() {
                    @Override
                    public void process(Record<Object, Object> record) {
                        if (record.key() == null) {
                            return;
                        }
                        KeyValueStore<Object, Object> store = context().getStateStore(step.get("store_name").asText());
                        long count = StreamsFunctions.size(store.get(record.key())) + 1;
                        store.put(record.key(), count);
                        context().forward(record.withValue(count));
                    }
                };
            case "global":
                return new ContextualProcessor<>() {
                    @Override
                    public void process(Record<Object, Object> record) {
                        if (record.key() == null) {
                            return;
                        }
                        KeyValueStore<Object, Object> store = context().getStateStore(step.get("global_name").asText());
                        String both = StreamsFunctions.text(record.value()) + "/" + StreamsFunctions.text(store.get(record.key()));
                        context().forward(record.withValue(StreamsFunctions.cut(both)));
                    }
                };
            case "window":
                return new ContextualProcessor<>() {
                    @Override
                    public void process(Record<Object, Object> record) {
                        if (record.key() == null || record.value() == null) {
                            return;
                        }
                        WindowStore<Object, Object> store = context().getStateStore(step.get("store_name").asText());
                        store.put(record.key(), record.value(), record.timestamp());
                        String found = "";
                        try (WindowStoreIterator<Object> entries =
                                store.fetch(record.key(), Math.max(0, record.timestamp() - 20), record.timestamp() + 5)) {
                            while (entries.hasNext()) {
                                KeyValue<Long, Object> entry = entries.next();
                                found = StreamsFunctions.cut(found + entry.key + "=" + StreamsFunctions.text(entry.value));
                            }
                        }
                        context().forward(record.withValue(found));
                    }
                };
            case "session":
                return new ContextualProcessor<>() {
                    @Override
                    public void process(Record<Object, Object> record) {
                        if (record.key() == null) {
                            return;
                        }
                        SessionStore<Object, Object> store = context().getStateStore(step.get("store_name").asText());
                        long at = record.timestamp();
                        long apart = step.get("apart").asLong();
                        store.put(new Windowed<>(record.key(), new SessionWindow(at, at + apart)), record.value());
                        List<Windowed<Object>> near = new ArrayList<>();
                        String found = "";
                        try (KeyValueIterator<Windowed<Object>, Object> entries =
                                store.findSessions(record.key(), at - apart, at + 2 * apart)) {
                            while (entries.hasNext()) {
                                KeyValue<Windowed<Object>, Object> entry = entries.next();
                                near.add(entry.key);
                                String times = entry.key.window().start() + "-" + entry.key.window().end();
                                found = StreamsFunctions.cut(found + times + "=" + StreamsFunctions.text(entry.value));
                            }
                        }
                        if (near.size() > 2) {
                            store.remove(near.get(0));
                        }
                        context().forward(record.withValue(found));
                    }
                };
            case "versioned":
                return new ContextualProcessor<>() {
                    @Override
                    public void process(Record<Object, Object> record) {
                        if (record.key() == null) {
                            return;
                        }
                        VersionedKeyValueStore<Object, Object> store = context().getStateStore(step.get("store_name").asText());
                        String found = StreamsFunctions.cut("" + store.put(record.key(), record.value(), record.timestamp()));
                        found = StreamsFunctions.cut(found + " " + told(store.get(record.key())));
                        long before = record.timestamp() - step.get("apart").asLong();
                        found = StreamsFunctions.cut(found + " " + told(store.get(record.key(), before)));
                        context().forward(record.withValue(found));
                    }

                    private String told(VersionedRecord<Object> version) {
                        return version == null ? "none" : StreamsFunctions.text(version.value()) + "@" + version.timestamp();
                    }
                };
            default:
                return new Punctuated(step);
        }
    }

    /** Keeps the last value of each key and forwards all of them at each turn. */
    private static final class Punctuated extends ContextualProcessor<Object, Object, Object, Object> {
        private final JsonNode step;

        Punctuated(JsonNode step) {
            this.step = step;
        }

        @Override
        public void init(org.apache.kafka.streams.processor.api.ProcessorContext<Object, Object> context) {
            super.init(context);
            PunctuationType type =
                    step.get("fn").asText().equals("stream_time") ? PunctuationType.STREAM_TIME : PunctuationType.WALL_CLOCK_TIME;
            context.schedule(Duration.ofMillis(step.get("interval").asLong()), type, this::punctuate);
        }

        @Override
        public void process(Record<Object, Object> record) {
            if (record.key() != null) {
                store().put(record.key(), record.value());
            }
        }

        private KeyValueStore<Object, Object> store() {
            return context().getStateStore(step.get("store_name").asText());
        }

        private void punctuate(long timestamp) {
            try (KeyValueIterator<Object, Object> entries = store().all()) {
                while (entries.hasNext()) {
                    KeyValue<Object, Object> entry = entries.next();
                    context().forward(new Record<>(entry.key, entry.value, timestamp));
                }
            }
        }
    }

    private static FixedKeyProcessor<Object, Object, Object> valuesProcessor(JsonNode step) {
        switch (step.get("fn").asText()) {
            case "pass":
                return new ContextualFixedKeyProcessor<>() {
                    @Override
                    public void process(FixedKeyRecord<Object, Object> record) {
                        context().forward(record);
                    }
                };
            case "headers":
                return new ContextualFixedKeyProcessor<>() {
                    @Override
                    public void process(FixedKeyRecord<Object, Object> record) {
                        context().forward(record.withHeaders(seen(record.headers(), record.key())));
                    }
                };
            default:
                return new ContextualFixedKeyProcessor<>() {
                    @Override
                    public void process(FixedKeyRecord<Object, Object> record) {
                        if (record.key() == null) {
                            return;
                        }
                        KeyValueStore<Object, Object> store = context().getStateStore(step.get("store_name").asText());
                        long count = StreamsFunctions.size(store.get(record.key())) + 1;
                        store.put(record.key(), count);
                        context().forward(record.withValue(count));
                    }
                };
        }
    }
}
