import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.kafka.streams.kstream.Aggregator;
import org.apache.kafka.streams.kstream.CogroupedKStream;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.Initializer;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Merger;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Reducer;
import org.apache.kafka.streams.kstream.SessionWindowedCogroupedKStream;
import org.apache.kafka.streams.kstream.SessionWindowedKStream;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.TimeWindowedCogroupedKStream;
import org.apache.kafka.streams.kstream.TimeWindowedKStream;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.UnlimitedWindows;

/** Grouped, windowed and cogrouped streams. */
@SuppressWarnings({"unchecked", "rawtypes"})
final class StreamsAggregations {
    private final JsonNode step;
    private final Map<String, Object> variables;
    private final Supplier<Materialized> materialized;
    private final Aggregator<Object, Object, Object> aggregator;
    private final Initializer<Object> initializer;
    private final Reducer<Object> reducer;
    private final Merger<Object, Object> merger = (k, l, r) -> StreamsFunctions.merge(l, r);

    StreamsAggregations(JsonNode step, Map<String, Object> variables, Supplier<Materialized> materialized) {
        this.step = step;
        this.variables = variables;
        this.materialized = materialized;
        String fn = step.hasNonNull("fn") ? step.get("fn").asText() : null;
        String initial = step.hasNonNull("initial") ? step.get("initial").asText() : null;
        aggregator = (k, v, a) -> StreamsFunctions.aggregate(fn, k, v, a);
        initializer = () -> StreamsFunctions.initial(initial);
        reducer = (l, r) -> StreamsFunctions.reduce(fn, l, r);
    }

    private Named name() {
        return step.hasNonNull("name") ? Named.as(step.get("name").asText()) : null;
    }

    private Materialized store() {
        return step.hasNonNull("store") ? materialized.get() : null;
    }

    Object make(String op, Object input) {
        if (op.equals("windowed_by")) {
            return windowed(input, step.get("window"));
        }
        if (op.equals("emit")) {
            EmitStrategy strategy = step.get("when").asText().equals("close")
                    ? EmitStrategy.onWindowClose()
                    : EmitStrategy.onWindowUpdate();
            return input instanceof TimeWindowedKStream
                    ? ((TimeWindowedKStream<Object, Object>) input).emitStrategy(strategy)
                    : ((SessionWindowedKStream<Object, Object>) input).emitStrategy(strategy);
        }
        if (op.equals("cogroup_with")) {
            KGroupedStream<Object, Object> other = (KGroupedStream<Object, Object>) variables.get(step.get("in").get(1).asText());
            return ((CogroupedKStream<Object, Object>) input).cogroup(other, aggregator);
        }
        if (input instanceof KGroupedStream) {
            return ofGrouped(op, (KGroupedStream<Object, Object>) input);
        }
        if (input instanceof TimeWindowedKStream) {
            return ofTimeWindowed(op, (TimeWindowedKStream<Object, Object>) input);
        }
        if (input instanceof SessionWindowedKStream) {
            return ofSessions(op, (SessionWindowedKStream<Object, Object>) input);
        }
        return ofCogrouped(input);
    }

    private static Object windowed(Object input, JsonNode window) {
        Duration grace = Duration.ofMillis(window.path("grace").asLong());
        Duration size = Duration.ofMillis(window.path("size").asLong());
        switch (window.get("kind").asText()) {
            case "sliding": {
                SlidingWindows windows = window.hasNonNull("grace")
                        ? SlidingWindows.ofTimeDifferenceAndGrace(size, grace)
                        : SlidingWindows.ofTimeDifferenceWithNoGrace(size);
                return input instanceof KGroupedStream
                        ? ((KGroupedStream<Object, Object>) input).windowedBy(windows)
                        : ((CogroupedKStream<Object, Object>) input).windowedBy(windows);
            }
            case "session": {
                SessionWindows windows = window.hasNonNull("grace")
                        ? SessionWindows.ofInactivityGapAndGrace(size, grace)
                        : SessionWindows.ofInactivityGapWithNoGrace(size);
                return input instanceof KGroupedStream
                        ? ((KGroupedStream<Object, Object>) input).windowedBy(windows)
                        : ((CogroupedKStream<Object, Object>) input).windowedBy(windows);
            }
            case "unlimited":
                return input instanceof KGroupedStream
                        ? ((KGroupedStream<Object, Object>) input).windowedBy(UnlimitedWindows.of())
                        : ((CogroupedKStream<Object, Object>) input).windowedBy(UnlimitedWindows.of());
            default: {
                TimeWindows windows = window.hasNonNull("grace")
                        ? TimeWindows.ofSizeAndGrace(size, grace)
                        : TimeWindows.ofSizeWithNoGrace(size);
                if (window.hasNonNull("advance")) {
                    windows = windows.advanceBy(Duration.ofMillis(window.get("advance").asLong()));
                }
                return input instanceof KGroupedStream
                        ? ((KGroupedStream<Object, Object>) input).windowedBy(windows)
                        : ((CogroupedKStream<Object, Object>) input).windowedBy(windows);
            }
        }
    }

    private Object ofGrouped(String op, KGroupedStream<Object, Object> grouped) {
        Materialized store = store();
        Named name = name();
        switch (op) {
            case "count":
                return store == null
                        ? name == null ? grouped.count() : grouped.count(name)
                        : name == null ? grouped.count(store) : grouped.count(name, store);
            case "reduce":
                if (store == null) {
                    return name == null ? grouped.reduce(reducer) : grouped.reduce(reducer, name, Materialized.with(null, null));
                }
                return name == null ? grouped.reduce(reducer, store) : grouped.reduce(reducer, name, store);
            default:
                if (store == null) {
                    return name == null
                            ? grouped.aggregate(initializer, aggregator)
                            : grouped.aggregate(initializer, aggregator, name, Materialized.with(null, null));
                }
                return name == null
                        ? grouped.aggregate(initializer, aggregator, store)
                        : grouped.aggregate(initializer, aggregator, name, store);
        }
    }

    private Object ofTimeWindowed(String op, TimeWindowedKStream<Object, Object> windowed) {
        Materialized store = store();
        Named name = name();
        switch (op) {
            case "count":
                return store == null
                        ? name == null ? windowed.count() : windowed.count(name)
                        : name == null ? windowed.count(store) : windowed.count(name, store);
            case "reduce":
                return store == null
                        ? name == null ? windowed.reduce(reducer) : windowed.reduce(reducer, name)
                        : name == null ? windowed.reduce(reducer, store) : windowed.reduce(reducer, name, store);
            default:
                return store == null
                        ? name == null ? windowed.aggregate(initializer, aggregator) : windowed.aggregate(initializer, aggregator, name)
                        : name == null
                                ? windowed.aggregate(initializer, aggregator, store)
                                : windowed.aggregate(initializer, aggregator, name, store);
        }
    }

    private Object ofSessions(String op, SessionWindowedKStream<Object, Object> windowed) {
        Materialized store = store();
        Named name = name();
        switch (op) {
            case "count":
                return store == null
                        ? name == null ? windowed.count() : windowed.count(name)
                        : name == null ? windowed.count(store) : windowed.count(name, store);
            case "reduce":
                return store == null
                        ? name == null ? windowed.reduce(reducer) : windowed.reduce(reducer, name)
                        : name == null ? windowed.reduce(reducer, store) : windowed.reduce(reducer, name, store);
            default:
                return store == null
                        ? name == null
                                ? windowed.aggregate(initializer, aggregator, merger)
                                : windowed.aggregate(initializer, aggregator, merger, name)
                        : name == null
                                ? windowed.aggregate(initializer, aggregator, merger, store)
                                : windowed.aggregate(initializer, aggregator, merger, name, store);
        }
    }

    private Object ofCogrouped(Object input) {
        Materialized store = store();
        Named name = name();
        if (input instanceof CogroupedKStream) {
            CogroupedKStream<Object, Object> cogrouped = (CogroupedKStream<Object, Object>) input;
            return store == null
                    ? name == null ? cogrouped.aggregate(initializer) : cogrouped.aggregate(initializer, name)
                    : name == null ? cogrouped.aggregate(initializer, store) : cogrouped.aggregate(initializer, name, store);
        }
        if (input instanceof TimeWindowedCogroupedKStream) {
            TimeWindowedCogroupedKStream<Object, Object> cogrouped = (TimeWindowedCogroupedKStream<Object, Object>) input;
            return store == null
                    ? name == null ? cogrouped.aggregate(initializer) : cogrouped.aggregate(initializer, name)
                    : name == null ? cogrouped.aggregate(initializer, store) : cogrouped.aggregate(initializer, name, store);
        }
        SessionWindowedCogroupedKStream<Object, Object> cogrouped = (SessionWindowedCogroupedKStream<Object, Object>) input;
        return store == null
                ? name == null ? cogrouped.aggregate(initializer, merger) : cogrouped.aggregate(initializer, merger, name)
                : name == null ? cogrouped.aggregate(initializer, merger, store) : cogrouped.aggregate(initializer, merger, name, store);
    }
}
