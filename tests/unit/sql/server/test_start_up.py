"""What a server loads before it listens: the door is to be open within a second."""

import subprocess
import sys


def test_a_server_without_queries_and_without_a_registry_loads_neither_the_engine_nor_a_client_for_it() -> None:
    unwanted = ("headwater.streams.dsl.app", "headwater.streams.engine.task", "headwater.client.schema_registry")
    program = (
        "import sys, headwater.sql.server.service; "
        f"print([m for m in ({unwanted!r} + ('duckdb', 'pyarrow', 'pyspark', 'http.client')) if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=240, check=True)
    assert ran.stdout.strip() == "[]"
