import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Windowed;

/**
 * The functions that a case names. tests/compat/support/streams/functions.py has the same ones: a value is a string, a long or
 * null, a key is a string, the window of a string, or null. All texts are ASCII.
 */
final class StreamsFunctions {
    private static final int LONGEST = 24;

    private StreamsFunctions() {}

    /** 'L' and eight bytes, or 'S' and UTF-8. */
    public static final class AnySerde implements Serde<Object> {
        @Override
        public Serializer<Object> serializer() {
            return (topic, value) -> {
                if (value == null) {
                    return null;
                }
                if (value instanceof Long) {
                    return ByteBuffer.allocate(9).put((byte) 'L').putLong((Long) value).array();
                }
                return ("S" + value).getBytes(StandardCharsets.UTF_8);
            };
        }

        @Override
        public Deserializer<Object> deserializer() {
            return (topic, data) -> {
                if (data == null) {
                    return null;
                }
                if (data[0] == 'L') {
                    return ByteBuffer.wrap(data).getLong(1);
                }
                return new String(data, 1, data.length - 1, StandardCharsets.UTF_8);
            };
        }
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    static Serde<Object> keySerde() {
        return (Serde) Serdes.String();
    }

    static String keyText(Object key) {
        if (key instanceof Windowed) {
            Windowed<?> windowed = (Windowed<?>) key;
            return windowed.key() + "@" + windowed.window().start() + "-" + windowed.window().end();
        }
        return String.valueOf(key);
    }

    static String text(Object value) {
        return cut(String.valueOf(value));
    }

    static String cut(String text) {
        return text.length() <= LONGEST ? text : text.substring(text.length() - LONGEST);
    }

    static long size(Object value) {
        if (value == null) {
            return 0;
        }
        return value instanceof Long ? (Long) value : ((String) value).length();
    }

    static boolean odd(Object value) {
        return size(value) % 2 != 0;
    }

    static boolean test(String name, Object key, Object value) {
        switch (name) {
            case "even":
                return !odd(value);
            case "short":
                return text(value).length() < 3;
            case "low_key":
                return keyText(key).compareTo("c") < 0;
            case "present":
                return value != null;
            case "all":
                return true;
            case "none":
                return false;
            default:
                throw new IllegalArgumentException("no predicate " + name);
        }
    }

    static Object value(String name, Object key, Object value) {
        switch (name) {
            case "upper":
                return text(value).toUpperCase(Locale.ROOT);
            case "size":
                return size(value);
            case "increment":
                return size(value) + 1;
            case "tag":
                return cut(text(value) + "!");
            case "null_odd":
                return odd(value) ? null : value;
            case "same":
                return value;
            case "with_key":
                return cut(keyText(key) + ":" + text(value));
            default:
                throw new IllegalArgumentException("no mapper of values " + name);
        }
    }

    static String key(String name, Object key, Object value) {
        switch (name) {
            case "first":
                return text(value).isEmpty() ? "-" : text(value).substring(0, 1);
            case "value":
                return text(value);
            case "parity":
                return odd(value) ? "o" : "e";
            case "null_odd":
                return odd(value) ? null : keyText(key);
            case "null_null":
                return value == null ? null : text(value).isEmpty() ? "-" : text(value).substring(0, 1);
            case "longer":
                return keyText(key) + "x";
            case "same":
                return keyText(key);
            default:
                throw new IllegalArgumentException("no selector of keys " + name);
        }
    }

    static KeyValue<Object, Object> pair(String name, Object key, Object value) {
        int dash = name.indexOf('/');
        return KeyValue.pair(key(name.substring(0, dash), key, value), value(name.substring(dash + 1), key, value));
    }

    static List<KeyValue<Object, Object>> pairs(String name, Object key, Object value) {
        List<KeyValue<Object, Object>> pairs = new ArrayList<>();
        switch (name) {
            case "letters":
                for (int i = 0; i < Math.min(3, text(value).length()); i++) {
                    pairs.add(KeyValue.pair(text(value).substring(i, i + 1), value));
                }
                return pairs;
            case "twice":
                pairs.add(KeyValue.pair(keyText(key), value));
                pairs.add(KeyValue.pair(keyText(key) + "'", value));
                return pairs;
            case "drop_odd":
                if (!odd(value)) {
                    pairs.add(KeyValue.pair(keyText(key), value));
                }
                return pairs;
            default:
                throw new IllegalArgumentException("no flat map " + name);
        }
    }

    static List<Object> values(String name, Object key, Object value) {
        List<Object> values = new ArrayList<>();
        switch (name) {
            case "letters":
                for (int i = 0; i < Math.min(3, text(value).length()); i++) {
                    values.add(text(value).substring(i, i + 1));
                }
                return values;
            case "twice":
                values.add(value);
                values.add(value);
                return values;
            case "drop_odd":
                if (!odd(value)) {
                    values.add(value);
                }
                return values;
            case "with_key":
                values.add(keyText(key));
                values.add(value);
                return values;
            default:
                throw new IllegalArgumentException("no flat map of values " + name);
        }
    }

    /** Of a record with that value and timestamp, behind others whose largest was {@code time}. */
    static long timestamp(String name, Object value, long timestamp, long time) {
        switch (name) {
            case "later":
                return timestamp + 7;
            case "skip_odd":
                return odd(value) ? -1 : timestamp;
            case "never_back":
                return Math.max(timestamp, time);
            case "by_value":
                return 10 * size(value);
            default:
                throw new IllegalArgumentException("no timestamp " + name);
        }
    }

    static Object reduce(String name, Object left, Object right) {
        switch (name) {
            case "add":
                return add(left, right);
            case "subtract":
                return subtract(left, right);
            case "last":
                return right;
            case "first":
                return left;
            case "larger":
                return text(left).compareTo(text(right)) >= 0 ? left : right;
            case "null_odd":
                return odd(right) ? null : add(left, right);
            default:
                throw new IllegalArgumentException("no reducer " + name);
        }
    }

    private static Object add(Object left, Object right) {
        return left instanceof Long && right instanceof Long ? (Object) ((Long) left + (Long) right) : cut(text(left) + text(right));
    }

    private static Object subtract(Object left, Object right) {
        return left instanceof Long && right instanceof Long
                ? (Object) ((Long) left - (Long) right)
                : cut(text(left) + "-" + text(right));
    }

    static Object initial(String name) {
        switch (name) {
            case "zero":
                return 0L;
            case "empty":
                return "";
            case "nothing":
                return null;
            default:
                throw new IllegalArgumentException("no initializer " + name);
        }
    }

    static Object aggregate(String name, Object key, Object value, Object aggregate) {
        switch (name) {
            case "sum":
                return size(aggregate) + size(value);
            case "difference":
                return size(aggregate) - size(value);
            case "join":
                return cut(text(aggregate) + text(value));
            case "cross_out":
                return cut(text(aggregate) + "-" + text(value));
            case "last":
                return value;
            case "null_odd":
                return odd(value) ? null : cut(text(aggregate) + text(value));
            case "with_key":
                return cut(keyText(key) + text(aggregate) + text(value));
            default:
                throw new IllegalArgumentException("no aggregator " + name);
        }
    }

    static Object merge(Object left, Object right) {
        return add(left, right);
    }

    static Object join(String name, Object key, Object left, Object right) {
        switch (name) {
            case "pair":
                return cut(text(left) + "|" + text(right));
            case "left":
                return left;
            case "right":
                return right;
            case "null_odd":
                return odd(left) ? null : cut(text(left) + "|" + text(right));
            case "with_key":
                return cut(keyText(key) + ":" + text(left) + "|" + text(right));
            case "total":
                return size(left) + size(right);
            default:
                throw new IllegalArgumentException("no joiner " + name);
        }
    }
}
