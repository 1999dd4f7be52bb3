import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.TreeSet;

/** The names of the public methods of the DSL's classes, static ones too, without those of Object and enum. */
final class StreamsMethods {
    private static final String[] CLASSES = {
        "StreamsBuilder",
        "kstream.KStream",
        "kstream.BranchedKStream",
        "kstream.KGroupedStream",
        "kstream.TimeWindowedKStream",
        "kstream.SessionWindowedKStream",
        "kstream.CogroupedKStream",
        "kstream.TimeWindowedCogroupedKStream",
        "kstream.SessionWindowedCogroupedKStream",
        "kstream.KTable",
        "kstream.KGroupedTable",
        "kstream.GlobalKTable",
        "kstream.Consumed",
        "kstream.Produced",
        "kstream.Grouped",
        "kstream.Repartitioned",
        "kstream.Materialized",
        "kstream.Named",
        "kstream.Branched",
        "kstream.Joined",
        "kstream.StreamJoined",
        "kstream.TableJoined",
        "kstream.Printed",
        "kstream.TimeWindows",
        "kstream.SlidingWindows",
        "kstream.SessionWindows",
        "kstream.UnlimitedWindows",
        "kstream.JoinWindows",
        "kstream.EmitStrategy",
        "kstream.Suppressed",
        "kstream.Suppressed$BufferConfig",
        "kstream.Suppressed$StrictBufferConfig",
        "kstream.Windowed",
    };

    private StreamsMethods() {}

    static ObjectNode all() throws ClassNotFoundException {
        ObjectNode answer = new ObjectMapper().createObjectNode();
        for (String name : CLASSES) {
            Class<?> type = Class.forName("org.apache.kafka.streams." + name);
            TreeSet<String> names = new TreeSet<>();
            for (Method method : type.getMethods()) {
                boolean own = method.getDeclaringClass() != Object.class && !method.isSynthetic();
                boolean known = method.getName().matches("equals|hashCode|toString");
                if (own && !known && Modifier.isPublic(method.getModifiers())) {
                    names.add(method.getName());
                }
            }
            ArrayNode methods = answer.putArray(type.getSimpleName());
            names.forEach(methods::add);
        }
        return answer;
    }
}
