import java.util.List;
import java.util.Map;
import org.opensearch.common.settings.Settings;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.transport.Netty4Plugin;

/** A node of OpenSearch on its own, with HTTP: the directory, then the ports of HTTP and of the transport. */
public class OpenSearchNode extends Node {
    OpenSearchNode(Settings settings) {
        super(
            InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), null, () -> "one"),
            List.of(Netty4Plugin.class),
            false);
    }

    public static void main(String[] arguments) throws Exception {
        Settings settings = Settings.builder()
            .put("path.home", arguments[0])
            .put("http.port", arguments[1])
            .put("transport.port", arguments[2])
            .put("network.host", "127.0.0.1")
            .put("discovery.type", "single-node")
            .put("cluster.routing.allocation.disk.threshold_enabled", false)
            .put("http.max_content_length", "1mb")
            .put("transport.type", "netty4")
            .put("http.type", "netty4")
            .build();
        Node node = new OpenSearchNode(settings).start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                node.close();
            } catch (Exception error) {
                error.printStackTrace();
            }
        }));
        Thread.currentThread().join();
    }
}
