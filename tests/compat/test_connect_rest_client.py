"""A client of Kafka Connect's REST API that others wrote (kafka-connect-py), against a worker of a group."""

from pathlib import Path
from typing import Any

import pytest
from kafka_connect import KafkaConnect  # type: ignore[import-untyped]
from requests.exceptions import HTTPError

from compat.support.local_cluster import until
from compat.test_connect_distributed import WorkerProcess, committed_if_there

SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"


def test_a_life_of_a_connector(tmp_path: Path, broker_address: str, topic: str) -> None:
    file = tmp_path / "in.txt"
    file.write_text("one\n")
    config = {"connector.class": SOURCE, "file": str(file), "topic": topic, "tasks.max": "1"}
    with WorkerProcess(tmp_path, broker_address, topic) as worker:
        client = KafkaConnect(url=worker.door.url)
        assert {"version", "commit", "kafka_cluster_id"} <= client.get_cluster_info().keys()
        assert SOURCE in {each["class"] for each in client.list_connector_plugins()}
        assert client.validate_connector_config(SOURCE, {**config, "name": "c"})["error_count"] == 0
        assert client.validate_connector_config(SOURCE, {"connector.class": SOURCE, "name": "c"})["error_count"] > 0

        assert client.create_connector({"name": "c", "config": config})["name"] == "c"
        with pytest.raises(HTTPError, match="409"):
            client.create_connector({"name": "c", "config": config})
        until(lambda: states(client) == ["RUNNING", "RUNNING"], "it runs")
        until(lambda: committed_if_there(broker_address, topic) == ["one"], "the line is there")
        assert client.get_connector_config("c") == {**config, "name": "c"}
        assert client.get_connector("c")["tasks"] == [{"connector": "c", "task": 0}]
        assert [each["id"]["task"] for each in client.list_connector_tasks("c")] == [0]
        until(lambda: client.list_connector_topics("c")["c"]["topics"] == [topic], "its topic is known")
        client.reset_connector_topics("c")

        client.pause_connector("c")
        until(lambda: states(client) == ["PAUSED", "PAUSED"], "it pauses")
        assert list(client.list_connectors(expand="status", state="PAUSED")) == ["c"]
        client.resume_connector("c")
        until(lambda: states(client) == ["RUNNING", "RUNNING"], "it goes on")
        client.restart_connector_task("c", 0)
        client.restart_connector("c", include_tasks=True)
        until(lambda: states(client) == ["RUNNING", "RUNNING"], "it runs again")
        assert client.update_connector("c", {**config, "batch.size": "7"})["config"]["batch.size"] == "7"
        client.stop_connector("c")
        until(lambda: states(client) == ["STOPPED"], "it stops")
        client.delete_connector("c")
        assert list(client.list_connectors()) == []
        with pytest.raises(HTTPError, match="404"):
            client.get_connector_status("c")


def states(client: Any) -> list[str]:
    """Of the connector and its tasks; while a group is balanced, a worker says that and nothing else."""
    try:
        found = client.get_connector_status("c")
    except HTTPError:
        return []
    return [found["connector"]["state"], *(task["state"] for task in found["tasks"])]
