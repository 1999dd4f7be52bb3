import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

/** The JVM of the tests of groups and transactions, spoken to as Harness is; members poll in threads of their own. */
public final class Groups {
    private static final Map<String, GroupMember> MEMBERS = new HashMap<>();
    private static final Transactions TRANSACTIONS = new Transactions();

    private Groups() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        BufferedReader in =
                new BufferedReader(new InputStreamReader(new FileInputStream(FileDescriptor.in), StandardCharsets.UTF_8));
        System.setOut(System.err);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode answer;
            try {
                answer = answer(Harness.JSON.readTree(line));
            } catch (Throwable error) { // an answer for the test that asked, whatever went wrong
                answer = Harness.error(error);
            }
            out.println(Harness.JSON.writeValueAsString(answer));
        }
        System.exit(0);
    }

    private static JsonNode answer(JsonNode command) throws Exception {
        switch (command.get("op").asText()) {
            case "tool":
                return Tools.run(command);
            case "groupAdmin":
                return GroupAdmin.run(command);
            case "transaction":
                return TRANSACTIONS.run(command);
            case "join":
                GroupMember member = new GroupMember(command);
                MEMBERS.put(member.handle, member);
                return Harness.JSON.createObjectNode().put("handle", member.handle);
            case "leave":
            case "remain":
                return MEMBERS.remove(command.get("handle").asText()).end(command.get("op").asText().equals("leave"));
            default:
                return MEMBERS.get(command.get("handle").asText()).run(command);
        }
    }
}
