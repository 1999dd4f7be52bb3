import com.fasterxml.jackson.databind.JsonNode;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/** Runs the `main` of a console tool in this JVM: its exit is caught, its output collected, its hooks run at the end. */
final class Tools {
    private Tools() {}

    private static final class Exited extends Error {
        final int status;

        Exited(int status) {
            super("exit " + status, null, false, false);
            this.status = status;
        }
    }

    static JsonNode run(JsonNode command) throws Exception {
        List<String> arguments = new ArrayList<>();
        command.get("arguments").forEach(argument -> arguments.add(argument.asText()));
        List<Runnable> hooks = new ArrayList<>();
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        InputStream stdin = System.in;
        PrintStream stdout = System.out;
        PrintStream stderr = System.err;
        System.setIn(new ByteArrayInputStream(command.path("stdin").asText("").getBytes(StandardCharsets.UTF_8)));
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        Exited[] first = new Exited[1]; // some tools catch what we throw and exit again: the first time counts
        Exit.Procedure exit = (status, message) -> {
            first[0] = first[0] == null ? new Exited(status) : first[0];
            throw first[0];
        };
        Exit.setExitProcedure(exit);
        Exit.setHaltProcedure(exit);
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        int status;
        try {
            status = call(command.get("main").asText(), arguments.toArray(new String[0]));
            for (Runnable hook : hooks) {
                Thread thread = new Thread(hook);
                thread.setDaemon(true);
                thread.start();
                thread.join(10_000);
            }
        } finally {
            System.setIn(stdin);
            System.setOut(stdout);
            System.setErr(stderr);
        }
        return Harness.JSON
                .createObjectNode()
                .put("status", status)
                .put("stdout", out.toString(StandardCharsets.UTF_8))
                .put("stderr", err.toString(StandardCharsets.UTF_8));
    }

    private static int call(String name, String[] arguments) throws Exception {
        try {
            Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) arguments);
            return 0;
        } catch (InvocationTargetException error) {
            if (error.getCause() instanceof Exited) {
                return ((Exited) error.getCause()).status;
            }
            error.getCause().printStackTrace(System.err);
            return 1; // as the java launcher would
        }
    }
}
