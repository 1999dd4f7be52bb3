import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.avro.Schema;
import org.apache.avro.SchemaCompatibility;
import org.apache.avro.SchemaNormalization;

/**
 * What Avro's own library says of pairs of schemas: {"reader", "writer"} per line on stdin, an answer per line on stdout.
 * Runs from its source with the jars of PySpark on the class path.
 */
public final class AvroOracle {
    private static final ObjectMapper JSON = new ObjectMapper();

    private AvroOracle() {}

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
        }
    }

    private static ObjectNode answer(JsonNode pair) {
        ObjectNode answer = JSON.createObjectNode();
        try {
            Schema reader = new Schema.Parser().parse(pair.get("reader").asText());
            Schema writer = new Schema.Parser().parse(pair.get("writer").asText());
            answer.put("canonical", reader.toString());
            answer.put("form", SchemaNormalization.toParsingForm(reader));
            answer.put("fingerprint", Long.toUnsignedString(SchemaNormalization.parsingFingerprint64(reader)));
            SchemaCompatibility.SchemaPairCompatibility result =
                    SchemaCompatibility.checkReaderWriterCompatibility(reader, writer);
            answer.put("compatible", result.getType() == SchemaCompatibility.SchemaCompatibilityType.COMPATIBLE);
            result.getResult().getIncompatibilities().forEach(each -> answer.withArray("kinds").add(each.getType().name()));
        } catch (RuntimeException error) {
            answer.put("error", String.valueOf(error.getMessage()));
        }
        return answer;
    }
}
