import java.io.File;
import java.io.PrintStream;
import java.io.FileInputStream;
import java.util.Properties;

/** Apache Kafka itself, one KRaft node: formats the log directory if it is new, then runs as `kafka-server-start` does. */
public final class ApacheBroker {
    private ApacheBroker() {}

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (FileInputStream file = new FileInputStream(arguments[0])) {
            properties.load(file);
        }
        if (!new File(properties.getProperty("log.dirs"), "meta.properties").exists()) {
            String[] format = {"format", "-t", arguments[1], "-c", arguments[0]};
            kafka.tools.StorageTool.execute(format, new PrintStream(System.err));
        }
        kafka.Kafka.main(new String[] {arguments[0]});
    }
}
