import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serializer;

/** A windowed key as text, with start and end: for sinks, where Kafka's own serde would leave out the end. */
final class StreamsWindowSerde implements Serde<Object> {
    @Override
    public Serializer<Object> serializer() {
        return (topic, key) -> key == null ? null : StreamsFunctions.keyText(key).getBytes(StandardCharsets.UTF_8);
    }

    @Override
    public Deserializer<Object> deserializer() {
        throw new UnsupportedOperationException("a key that is only written");
    }
}
