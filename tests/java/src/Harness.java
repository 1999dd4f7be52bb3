import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.protocol.Errors;

/**
 * One JVM for the whole test session, because a start costs a second: a command per line on stdin, an answer per line
 * on stdout, both JSON. An exception is an answer too: {"error": {"name", "code", "message"}}, with Kafka's error code.
 */
public final class Harness {
    static final ObjectMapper JSON = new ObjectMapper();

    private Harness() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        BufferedReader in =
                new BufferedReader(new InputStreamReader(new FileInputStream(FileDescriptor.in), StandardCharsets.UTF_8));
        System.setOut(System.err); // what a library prints must not look like an answer
        Records records = new Records();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(JSON.writeValueAsString(answer(records, JSON.readTree(line))));
        }
        records.close();
    }

    private static JsonNode answer(Records records, JsonNode command) {
        try {
            switch (command.get("op").asText()) {
                case "tool":
                    return Tools.run(command);
                case "produce":
                    return records.produce(command);
                case "flush":
                    return records.flush(command);
                case "consume":
                    return records.consume(command);
                case "positions":
                    return records.positions(command);
                case "admin":
                    return AdminCalls.run(command);
                default:
                    throw new IllegalArgumentException("no such op: " + command);
            }
        } catch (Throwable error) { // an answer for the test that asked, whatever went wrong
            return error(error);
        }
    }

    static ObjectNode error(Throwable thrown) {
        Throwable cause = Errors.maybeUnwrapException(thrown);
        Errors code = Errors.forException(cause);
        ObjectNode answer = JSON.createObjectNode();
        answer.putObject("error")
                .put("name", cause.getClass().getSimpleName())
                .put("code", code.code())
                .put("message", String.valueOf(cause.getMessage()));
        return answer;
    }
}
