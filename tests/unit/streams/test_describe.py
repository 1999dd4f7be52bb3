"""`describe()` says what Kafka Streams 4.3 says. These texts are from its own Topology.describe()."""

from headwater.streams import App
from headwater.streams.topology.describe import java_hash_order


def test_order_of_a_java_hash_set() -> None:
    """Worked out with java.util.HashSet."""
    assert java_hash_order(["orders", "payments", "a", "b"]) == ["a", "b", "payments", "orders"]


def test_filter_and_sink() -> None:
    app = App("app")
    app.stream("in").filter(bool).to("out")
    assert app.describe() == (
        "Topologies:\n"
        "   Sub-topology: 0\n"
        "    Source: KSTREAM-SOURCE-0000000000 (topics: [in])\n"
        "      --> KSTREAM-FILTER-0000000001\n"
        "    Processor: KSTREAM-FILTER-0000000001 (stores: [])\n"
        "      --> KSTREAM-SINK-0000000002\n"
        "      <-- KSTREAM-SOURCE-0000000000\n"
        "    Sink: KSTREAM-SINK-0000000002 (topic: out)\n"
        "      <-- KSTREAM-FILTER-0000000001\n"
        "\n"
    )


def test_a_repartition_topic_ends_a_sub_topology() -> None:
    app = App("app")
    app.stream("in").select_key(lambda v: v).repartition().to("out")
    assert app.describe() == (
        "Topologies:\n"
        "   Sub-topology: 0\n"
        "    Source: KSTREAM-SOURCE-0000000000 (topics: [in])\n"
        "      --> KSTREAM-KEY-SELECT-0000000001\n"
        "    Processor: KSTREAM-KEY-SELECT-0000000001 (stores: [])\n"
        "      --> KSTREAM-FILTER-0000000004\n"
        "      <-- KSTREAM-SOURCE-0000000000\n"
        "    Processor: KSTREAM-FILTER-0000000004 (stores: [])\n"
        "      --> KSTREAM-SINK-0000000003\n"
        "      <-- KSTREAM-KEY-SELECT-0000000001\n"
        "    Sink: KSTREAM-SINK-0000000003 (topic: KSTREAM-REPARTITION-0000000002-repartition)\n"
        "      <-- KSTREAM-FILTER-0000000004\n"
        "\n"
        "  Sub-topology: 1\n"
        "    Source: KSTREAM-SOURCE-0000000005 (topics: [KSTREAM-REPARTITION-0000000002-repartition])\n"
        "      --> KSTREAM-SINK-0000000006\n"
        "    Sink: KSTREAM-SINK-0000000006 (topic: out)\n"
        "      <-- KSTREAM-SOURCE-0000000005\n"
        "\n"
    )
