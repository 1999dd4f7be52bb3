import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BiFunction;
import java.util.regex.Pattern;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Branched;
import org.apache.kafka.streams.kstream.BranchedKStream;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KGroupedTable;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Printed;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TableJoined;
import org.apache.kafka.streams.kstream.ValueJoiner;
import org.apache.kafka.streams.kstream.ValueJoinerWithKey;
import org.apache.kafka.streams.kstream.ValueMapper;
import org.apache.kafka.streams.kstream.ValueMapperWithKey;
import org.apache.kafka.streams.kstream.internals.AbstractStream;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * Builds a topology from a list of steps. A step names its operator ("op"), the variables it reads ("in"), the one it makes ("out"),
 * its functions ("fn"), and maybe the name of the node ("name") and of its store ("store": {"name", "retention", "versioned"}).
 */
@SuppressWarnings({"unchecked", "rawtypes"})
final class StreamsTopologies {
    private final StreamsBuilder builder = new StreamsBuilder();
    private final Map<String, Object> variables = new HashMap<>();
    private final Map<String, Path> printed;
    private JsonNode step;

    private StreamsTopologies(Map<String, Path> printed) {
        this.printed = printed;
    }

    /** {@code printed} gets the files that streams are printed to, by the variables of their steps. */
    static StreamsBuilder build(JsonNode steps, Map<String, Path> printed) {
        StreamsTopologies topologies = new StreamsTopologies(printed);
        for (JsonNode each : steps) {
            topologies.step = each;
            Object made = topologies.make();
            if (each.hasNonNull("out") && each.get("out").isTextual()) {
                topologies.variables.put(each.get("out").asText(), made);
            }
        }
        return topologies.builder;
    }

    private String text(String field) {
        return step.hasNonNull(field) ? step.get(field).asText() : null;
    }

    private long number(String field) {
        return step.get(field).asLong();
    }

    private boolean has(String field) {
        return step.hasNonNull(field);
    }

    private boolean flag(String field) {
        return step.hasNonNull(field) && step.get(field).asBoolean();
    }

    private String fn() {
        return text("fn");
    }

    private <T> T in(int index) {
        return (T) variables.get(step.get("in").get(index).asText());
    }

    private Named named() {
        return Named.as(text("name"));
    }

    private Consumed<Object, Object> consumed() {
        Consumed<Object, Object> consumed = Consumed.with(StreamsFunctions.keySerde(), null);
        if (has("timestamp")) {
            String fn = text("timestamp");
            consumed = consumed.withTimestampExtractor(
                    (record, time) -> StreamsFunctions.timestamp(fn, record.value(), record.timestamp(), time));
        }
        return has("name") ? consumed.withName(text("name")) : consumed;
    }

    private Printed<Object, Object> toFile(String fn) {
        try {
            Path file = Files.createTempFile("printed", ".txt");
            printed.put(text("out"), file);
            Printed<Object, Object> how = Printed.toFile(file.toString());
            how = how.withKeyValueMapper((k, v) -> StreamsFunctions.text(StreamsFunctions.value(fn, k, v)));
            how = has("label") ? how.withLabel(text("label")) : how;
            return has("name") ? how.withName(text("name")) : how;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** Keys have their serde here, because windows of keys cannot do with the default; values keep theirs. */
    private Grouped<Object, Object> grouped(Object parent) {
        Grouped<Object, Object> grouped =
                Grouped.with(StreamsFunctions.keySerde(), ((AbstractStream<Object, Object>) parent).valueSerde());
        return has("name") ? grouped.withName(text("name")) : grouped;
    }

    private static Duration ms(long ms) {
        return Duration.ofMillis(ms);
    }

    /** The store of this step; a table that is asked for without "store" goes without one. */
    private Materialized materialized() {
        JsonNode store = step.get("store");
        if (store.hasNonNull("versioned")) {
            return Materialized.as(
                    Stores.persistentVersionedKeyValueStore(store.get("name").asText(), ms(store.get("versioned").asLong())))
                    .withKeySerde((Serde) StreamsFunctions.keySerde());
        }
        Materialized materialized = store.hasNonNull("name")
                ? Materialized.as(store.get("name").asText())
                : Materialized.with(null, null);
        materialized = materialized.withKeySerde(StreamsFunctions.keySerde());
        if (store.hasNonNull("retention")) {
            materialized = materialized.withRetention(ms(store.get("retention").asLong()));
        }
        if (!store.path("caching").asBoolean(true)) {
            materialized = materialized.withCachingDisabled();
        }
        if (store.hasNonNull("logging") && !store.get("logging").asBoolean()) {
            materialized = materialized.withLoggingDisabled();
        }
        return materialized;
    }

    private Object make() {
        String op = text("op");
        switch (op) {
            case "stream":
                if (has("pattern")) {
                    return builder.stream(Pattern.compile(text("pattern")), consumed());
                }
                if (has("topics")) {
                    List<String> topics = new ArrayList<>();
                    step.get("topics").forEach(topic -> topics.add(topic.asText()));
                    return builder.stream(topics, consumed());
                }
                return builder.stream(text("topic"), consumed());
            case "table":
                if (has("store")) {
                    return builder.table(text("topic"), consumed(), materialized());
                }
                return builder.table(text("topic"), consumed());
            case "global_table":
                return has("store")
                        ? builder.globalTable(text("topic"), consumed(), materialized())
                        : builder.globalTable(text("topic"), consumed());
            case "global_store":
                return StreamsProcessors.globalStore(builder, step, consumed());
            case "state_store":
                return builder.addStateStore(StreamsProcessors.store(text("kind"), text("store_name"), step));
            default:
                Object input = in(0);
                if (input instanceof KStream) {
                    return ofStream(op, (KStream<Object, Object>) input);
                }
                if (input instanceof KTable) {
                    return ofTable(op, (KTable<Object, Object>) input);
                }
                if (input instanceof KGroupedTable) {
                    return ofGroupedTable(op, (KGroupedTable<Object, Object>) input);
                }
                if (input instanceof KGroupedStream && op.equals("cogroup")) {
                    String fn = fn();
                    return ((KGroupedStream<Object, Object>) input).cogroup((k, v, a) -> StreamsFunctions.aggregate(fn, k, v, a));
                }
                return new StreamsAggregations(step, variables, this::materialized).make(op, input);
        }
    }

    private Object ofStream(String op, KStream<Object, Object> stream) {
        String fn = fn();
        boolean named = has("name");
        switch (op) {
            case "filter":
                return named
                        ? stream.filter((k, v) -> StreamsFunctions.test(fn, k, v), named())
                        : stream.filter((k, v) -> StreamsFunctions.test(fn, k, v));
            case "filter_not":
                return named
                        ? stream.filterNot((k, v) -> StreamsFunctions.test(fn, k, v), named())
                        : stream.filterNot((k, v) -> StreamsFunctions.test(fn, k, v));
            case "map":
                return named
                        ? stream.map((k, v) -> StreamsFunctions.pair(fn, k, v), named())
                        : stream.map((k, v) -> StreamsFunctions.pair(fn, k, v));
            case "map_values": {
                ValueMapperWithKey<Object, Object, Object> mapper = (k, v) -> StreamsFunctions.value(fn, k, v);
                ValueMapper<Object, Object> plain = v -> StreamsFunctions.value(fn, null, v);
                if (flag("with_key")) {
                    return named ? stream.mapValues(mapper, named()) : stream.mapValues(mapper);
                }
                return named ? stream.mapValues(plain, named()) : stream.mapValues(plain);
            }
            case "flat_map":
                return named
                        ? stream.flatMap((k, v) -> StreamsFunctions.pairs(fn, k, v), named())
                        : stream.flatMap((k, v) -> StreamsFunctions.pairs(fn, k, v));
            case "flat_map_values": {
                ValueMapperWithKey<Object, Object, Iterable<Object>> mapper = (k, v) -> StreamsFunctions.values(fn, k, v);
                ValueMapper<Object, Iterable<Object>> plain = v -> StreamsFunctions.values(fn, null, v);
                if (flag("with_key")) {
                    return named ? stream.flatMapValues(mapper, named()) : stream.flatMapValues(mapper);
                }
                return named ? stream.flatMapValues(plain, named()) : stream.flatMapValues(plain);
            }
            case "print":
                stream.print(toFile(fn));
                return null;
            case "select_key":
                return named
                        ? stream.selectKey((k, v) -> StreamsFunctions.key(fn, k, v), named())
                        : stream.selectKey((k, v) -> StreamsFunctions.key(fn, k, v));
            case "peek":
                return named ? stream.peek((k, v) -> {}, named()) : stream.peek((k, v) -> {});
            case "foreach":
                if (named) {
                    stream.foreach((k, v) -> {}, named());
                } else {
                    stream.foreach((k, v) -> {});
                }
                return null;
            case "merge":
                return named ? stream.merge(in(1), named()) : stream.merge(in(1));
            case "repartition": {
                if (!named && !has("partitions")) {
                    return stream.repartition();
                }
                Repartitioned<Object, Object> how = named ? Repartitioned.as(text("name")) : Repartitioned.with(null, null);
                return stream.repartition(has("partitions") ? how.withNumberOfPartitions((int) number("partitions")) : how);
            }
            case "to":
                return to(stream);
            case "to_table":
                if (has("store")) {
                    return named ? stream.toTable(named(), materialized()) : stream.toTable(materialized());
                }
                return named ? stream.toTable(named()) : stream.toTable();
            case "split":
                return split(stream);
            case "group_by_key":
                return stream.groupByKey(grouped(stream));
            case "group_by":
                return stream.groupBy((k, v) -> StreamsFunctions.key(fn, k, v), grouped(stream));
            case "process":
                return StreamsProcessors.process(stream, step);
            case "process_values":
                return StreamsProcessors.processValues(stream, step);
            case "join":
            case "left_join":
            case "outer_join":
                return joined(op, stream);
            default:
                throw new IllegalArgumentException("no operator of streams " + op);
        }
    }

    private Object to(KStream<Object, Object> stream) {
        Produced<Object, Object> produced = has("name") ? Produced.as(text("name")) : null;
        if (flag("dynamic")) {
            String prefix = text("topic");
            if (produced == null) {
                stream.to((k, v, context) -> prefix + (StreamsFunctions.odd(v) ? "-odd" : "-even"));
            } else {
                stream.to((k, v, context) -> prefix + (StreamsFunctions.odd(v) ? "-odd" : "-even"), produced);
            }
        } else if (flag("windowed")) {
            Produced windowed = Produced.with(new StreamsWindowSerde(), null);
            stream.to(text("topic"), produced == null ? windowed : windowed.withName(text("name")));
        } else if (produced == null) {
            stream.to(text("topic"));
        } else {
            stream.to(text("topic"), produced);
        }
        return null;
    }

    private Object split(KStream<Object, Object> stream) {
        BranchedKStream<Object, Object> branched = has("name") ? stream.split(named()) : stream.split();
        for (JsonNode branch : step.get("branches")) {
            String predicate = branch.get("fn").asText();
            branched = branch.hasNonNull("name")
                    ? branched.branch((k, v) -> StreamsFunctions.test(predicate, k, v), Branched.as(branch.get("name").asText()))
                    : branched.branch((k, v) -> StreamsFunctions.test(predicate, k, v));
        }
        Map<String, KStream<Object, Object>> branches = flag("default") ? branched.defaultBranch() : branched.noDefaultBranch();
        String prefix = has("name") ? text("name") : null;
        int number = 0;
        for (JsonNode out : step.get("outs")) {
            JsonNode branch = step.get("branches").get(number);
            number++;
            String suffix = branch == null ? "0" : branch.hasNonNull("name") ? branch.get("name").asText() : String.valueOf(number);
            KStream<Object, Object> found = null;
            for (Map.Entry<String, KStream<Object, Object>> entry : branches.entrySet()) {
                String name = entry.getKey();
                if (prefix == null ? name.matches("KSTREAM-BRANCH-\\d{10}\\Q" + suffix + "\\E") : name.equals(prefix + suffix)) {
                    found = entry.getValue();
                }
            }
            if (found == null) {
                throw new IllegalArgumentException("no branch " + suffix + " in " + branches.keySet());
            }
            variables.put(out.asText(), found);
        }
        return null;
    }

    private Object joined(String op, KStream<Object, Object> stream) {
        String fn = fn();
        Object other = in(1);
        ValueJoinerWithKey<Object, Object, Object, Object> keyed = (k, l, r) -> StreamsFunctions.join(fn, k, l, r);
        ValueJoiner<Object, Object, Object> plain = (l, r) -> StreamsFunctions.join(fn, null, l, r);
        boolean withKey = flag("with_key");
        if (other instanceof KStream) {
            return streamJoin(op, stream, (KStream<Object, Object>) other, keyed, plain, withKey);
        }
        if (other instanceof GlobalKTable) {
            String selector = text("key_fn");
            GlobalKTable<Object, Object> table = (GlobalKTable<Object, Object>) other;
            Named name = has("name") ? named() : null;
            if (op.equals("join")) {
                return name == null
                        ? stream.join(table, (k, v) -> StreamsFunctions.key(selector, k, v), keyed)
                        : stream.join(table, (k, v) -> StreamsFunctions.key(selector, k, v), keyed, name);
            }
            return name == null
                    ? stream.leftJoin(table, (k, v) -> StreamsFunctions.key(selector, k, v), keyed)
                    : stream.leftJoin(table, (k, v) -> StreamsFunctions.key(selector, k, v), keyed, name);
        }
        KTable<Object, Object> table = (KTable<Object, Object>) other;
        if (!has("name") && !has("grace")) {
            if (withKey) {
                return op.equals("join") ? stream.join(table, keyed) : stream.leftJoin(table, keyed);
            }
            return op.equals("join") ? stream.join(table, plain) : stream.leftJoin(table, plain);
        }
        Joined<Object, Object, Object> how = has("name") ? Joined.as(text("name")) : Joined.with(null, null, null);
        if (has("grace")) {
            how = how.withGracePeriod(ms(number("grace")));
        }
        return op.equals("join") ? stream.join(table, keyed, how) : stream.leftJoin(table, keyed, how);
    }

    private Object streamJoin(String op, KStream<Object, Object> left, KStream<Object, Object> right,
            ValueJoinerWithKey<Object, Object, Object, Object> keyed, ValueJoiner<Object, Object, Object> plain, boolean withKey) {
        JsonNode window = step.get("window");
        JoinWindows windows = window.hasNonNull("grace")
                ? JoinWindows.ofTimeDifferenceAndGrace(ms(Math.max(window.get("before").asLong(), window.get("after").asLong())),
                        ms(window.get("grace").asLong()))
                : JoinWindows.ofTimeDifferenceWithNoGrace(ms(Math.max(window.get("before").asLong(), window.get("after").asLong())));
        windows = windows.before(ms(window.get("before").asLong())).after(ms(window.get("after").asLong()));
        Serde<Object> leftSerde = ((AbstractStream<Object, Object>) left).valueSerde(); // stores have those of their streams here
        Serde<Object> rightSerde = ((AbstractStream<Object, Object>) right).valueSerde();
        boolean plainStores = !has("name") && !has("store_name") && leftSerde == null && rightSerde == null;
        StreamJoined<Object, Object, Object> how = plainStores ? null : StreamJoined.with(null, leftSerde, rightSerde);
        if (has("name")) {
            how = how.withStoreName(text("name")).withName(text("name"));
        }
        if (has("store_name")) {
            how = how.withStoreName(text("store_name"));
        }
        switch (op) {
            case "join":
                if (how == null) {
                    return withKey ? left.join(right, keyed, windows) : left.join(right, plain, windows);
                }
                return left.join(right, keyed, windows, how);
            case "left_join":
                if (how == null) {
                    return withKey ? left.leftJoin(right, keyed, windows) : left.leftJoin(right, plain, windows);
                }
                return left.leftJoin(right, keyed, windows, how);
            default:
                if (how == null) {
                    return withKey ? left.outerJoin(right, keyed, windows) : left.outerJoin(right, plain, windows);
                }
                return left.outerJoin(right, keyed, windows, how);
        }
    }

    private Object ofTable(String op, KTable<Object, Object> table) {
        String fn = fn();
        boolean named = has("name");
        boolean store = has("store");
        switch (op) {
            case "filter":
            case "filter_not": {
                org.apache.kafka.streams.kstream.Predicate<Object, Object> test = (k, v) -> StreamsFunctions.test(fn, k, v);
                if (op.equals("filter")) {
                    return store
                            ? named ? table.filter(test, named(), materialized()) : table.filter(test, materialized())
                            : named ? table.filter(test, named()) : table.filter(test);
                }
                return store
                        ? named ? table.filterNot(test, named(), materialized()) : table.filterNot(test, materialized())
                        : named ? table.filterNot(test, named()) : table.filterNot(test);
            }
            case "map_values": {
                ValueMapperWithKey<Object, Object, Object> mapper = (k, v) -> StreamsFunctions.value(fn, k, v);
                if (flag("with_key")) {
                    return store
                            ? named ? table.mapValues(mapper, named(), materialized()) : table.mapValues(mapper, materialized())
                            : named ? table.mapValues(mapper, named()) : table.mapValues(mapper);
                }
                ValueMapper<Object, Object> plain = v -> StreamsFunctions.value(fn, null, v);
                return store
                        ? named ? table.mapValues(plain, named(), materialized()) : table.mapValues(plain, materialized())
                        : named ? table.mapValues(plain, named()) : table.mapValues(plain);
            }
            case "transform_values":
                return StreamsProcessors.transformValues(table, step, store ? materialized() : null);
            case "to_stream":
                if (fn != null) {
                    return named
                            ? table.toStream((k, v) -> StreamsFunctions.key(fn, k, v), named())
                            : table.toStream((k, v) -> StreamsFunctions.key(fn, k, v));
                }
                return named ? table.toStream(named()) : table.toStream();
            case "suppress":
                return table.suppress(suppressed());
            case "group_by":
                return named
                        ? table.groupBy((k, v) -> StreamsFunctions.pair(fn, k, v), Grouped.as(text("name")))
                        : table.groupBy((k, v) -> StreamsFunctions.pair(fn, k, v));
            case "join":
            case "left_join":
            case "outer_join":
                return has("key_fn") ? foreignKeyJoin(op, table, in(1)) : tableJoin(op, table, in(1));
            default:
                throw new IllegalArgumentException("no operator of tables " + op);
        }
    }

    private Suppressed suppressed() {
        Suppressed.BufferConfig buffer;
        if (has("max_records")) {
            buffer = Suppressed.BufferConfig.maxRecords(number("max_records"));
        } else if (has("max_bytes")) {
            buffer = Suppressed.BufferConfig.maxBytes(number("max_bytes"));
        } else {
            buffer = Suppressed.BufferConfig.unbounded();
        }
        Suppressed how = text("until").equals("window_closes")
                ? Suppressed.untilWindowCloses((Suppressed.StrictBufferConfig) buffer)
                : Suppressed.untilTimeLimit(ms(number("wait")), buffer);
        return has("name") ? how.withName(text("name")) : how;
    }

    private Object tableJoin(String op, KTable<Object, Object> left, KTable<Object, Object> right) {
        String fn = fn();
        ValueJoiner<Object, Object, Object> joiner = (l, r) -> StreamsFunctions.join(fn, null, l, r);
        Named name = has("name") ? named() : null;
        Materialized<Object, Object, KeyValueStore<Bytes, byte[]>> store = has("store") ? materialized() : null;
        switch (op) {
            case "join":
                return store == null
                        ? name == null ? left.join(right, joiner) : left.join(right, joiner, name)
                        : name == null ? left.join(right, joiner, store) : left.join(right, joiner, name, store);
            case "left_join":
                return store == null
                        ? name == null ? left.leftJoin(right, joiner) : left.leftJoin(right, joiner, name)
                        : name == null ? left.leftJoin(right, joiner, store) : left.leftJoin(right, joiner, name, store);
            default:
                return store == null
                        ? name == null ? left.outerJoin(right, joiner) : left.outerJoin(right, joiner, name)
                        : name == null ? left.outerJoin(right, joiner, store) : left.outerJoin(right, joiner, name, store);
        }
    }

    private Object foreignKeyJoin(String op, KTable<Object, Object> left, KTable<Object, Object> right) {
        String fn = fn();
        String selector = text("key_fn");
        ValueJoiner<Object, Object, Object> joiner = (l, r) -> StreamsFunctions.join(fn, null, l, r);
        BiFunction<Object, Object, Object> extractor = (k, v) -> StreamsFunctions.key(selector, k, v);
        TableJoined<Object, Object> name = has("name") ? TableJoined.as(text("name")) : null;
        Materialized<Object, Object, KeyValueStore<Bytes, byte[]>> store = has("store") ? materialized() : null;
        if (op.equals("join")) {
            return store == null
                    ? name == null ? left.join(right, extractor, joiner) : left.join(right, extractor, joiner, name)
                    : name == null ? left.join(right, extractor, joiner, store) : left.join(right, extractor, joiner, name, store);
        }
        return store == null
                ? name == null ? left.leftJoin(right, extractor, joiner) : left.leftJoin(right, extractor, joiner, name)
                : name == null ? left.leftJoin(right, extractor, joiner, store) : left.leftJoin(right, extractor, joiner, name, store);
    }

    private Object ofGroupedTable(String op, KGroupedTable<Object, Object> grouped) {
        String fn = fn();
        String undo = text("undo");
        switch (op) {
            case "count":
                return has("store")
                        ? has("name") ? grouped.count(named(), materialized()) : grouped.count(materialized())
                        : has("name") ? grouped.count(named()) : grouped.count();
            case "reduce":
                return has("store")
                        ? grouped.reduce((l, r) -> StreamsFunctions.reduce(fn, l, r), (l, r) -> StreamsFunctions.reduce(undo, l, r), materialized())
                        : grouped.reduce((l, r) -> StreamsFunctions.reduce(fn, l, r), (l, r) -> StreamsFunctions.reduce(undo, l, r));
            default:
                String initial = text("initial");
                return has("store")
                        ? grouped.aggregate(() -> StreamsFunctions.initial(initial), (k, v, a) -> StreamsFunctions.aggregate(fn, k, v, a),
                                (k, v, a) -> StreamsFunctions.aggregate(undo, k, v, a), materialized())
                        : grouped.aggregate(() -> StreamsFunctions.initial(initial), (k, v, a) -> StreamsFunctions.aggregate(fn, k, v, a),
                                (k, v, a) -> StreamsFunctions.aggregate(undo, k, v, a));
        }
    }
}
