"""Statements and paths that need a server, on one: the examples of docs/SQL.md, what the server tells of itself, and a
server that runs a file.
"""

import json
import re
from pathlib import Path
from urllib.parse import quote

from compat.support.broker import BrokerProcess
from compat.support.members import until
from compat.support.sql_server import SqlServer
from headwater.client import Producer
from headwater.sql.language.parser import split

_PAGE = (Path(__file__).parents[2] / "docs" / "SQL.md").read_text()


def _examples(topic: str, query_id: str) -> list[str]:
    """Of the page, for what this test has made; schemas have a test of their own."""
    (block,) = [each for each in re.findall(r"```sql\n(.*?)```", _PAGE, re.DOTALL) if "PRINT 'orders'" in each]
    named = (
        block.replace("CTAS_TOTALS_7", query_id)
        .replace("'orders'", f"'{topic}'")
        .replace("TOPIC orders", f"TOPIC `{topic}`")
    )
    return [each for each in split(named) if not each.startswith("ASSERT SCHEMA")]


def test_the_examples_of_the_page_and_what_a_server_tells_of_itself(
    group_broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    everything = {"ksql_streams_auto_offset_reset": "earliest", "ksql_query_pull_max_allowed_offset_lag": "0"}
    with SqlServer(group_broker.bootstrap, tmp_path, topic, **everything) as server:
        server.run(
            f"CREATE STREAM orders (id INT KEY, customer STRING, amount INT) WITH (kafka_topic='{topic}', "
            "value_format='JSON', partitions=4);"
        )
        made = server.run(
            f"CREATE TABLE totals WITH (kafka_topic='{topic}_totals') AS SELECT customer, SUM(amount) AS total "
            "FROM orders GROUP BY customer;"
        )
        for number in range(5):
            server.run(f"INSERT INTO orders VALUES ({number}, 'ada', {number});")
        until(lambda: server.ask("SELECT total FROM totals;") == [[10]], "the total does not come", 180)
        answers = {}
        for each in _examples(topic, made[0]["commandStatus"]["queryId"]):
            if each.startswith("SELECT"):
                answers[each] = server.ask(each)
            elif each.startswith("PRINT"):
                status, body = server.call("POST", "/query", {"ksql": each})
                assert status == 200, each
                answers[each] = body.splitlines()
            else:
                answers[each] = server.run(each)
        assert len(answers) > 15
        assert sorted(row[0] for row in answers["SELECT * FROM orders EMIT CHANGES LIMIT 5;"]) == [0, 1, 2, 3, 4]
        assert answers["SELECT customer, total FROM totals WHERE customer = 'ada';"] == [["ada", 10]]
        assert all(answers.values()), "an example has no answer"
        _check_paths(server, topic)
        assert server.stop() == 0


def _check_paths(server: SqlServer, topic: str) -> None:
    def got(path: str) -> tuple[int, object]:
        status, body = server.call("GET", path)
        return status, json.loads(body)

    created = {"status": "SUCCESS", "message": "Stream created", "queryId": None}
    assert got(f"/status/stream/{quote('`ORDERS`')}/create") == (200, created)
    status, found = got("/status")
    assert status == 200
    assert isinstance(found, dict)
    assert found["commandStatuses"]["stream/`ORDERS`/create"] == "SUCCESS"
    assert got("/status/stream/NOTHING/create")[0] == 404
    assert got("/is_valid_property/auto.offset.reset") == (200, True)
    assert got("/is_valid_property/ksql.service.id")[0] == 400
    status, found = got("/v1/metadata")
    assert isinstance(found, dict)
    assert found["clusterId"]["scope"]["clusters"]["ksql-cluster"] == topic
    assert got("/v1/metadata/id")[1] == found["clusterId"]
    with server.pushed("SELECT id FROM orders EMIT CHANGES;") as lines:
        query_id = json.loads(next(lines))["queryId"]
        assert sorted(json.loads(next(lines))[0] for _ in range(5)) == [0, 1, 2, 3, 4]  # from the beginning: the config
        assert server.call("POST", "/close-query", {"queryId": query_id})[0] == 200
        assert list(lines) == []
    assert server.call("POST", "/close-query", {"queryId": query_id})[0] == 400


def test_a_server_that_runs_a_file_takes_no_other_statements_and_says_why_a_query_has_ended(
    group_broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    file = tmp_path / "queries.sql"
    file.write_text(
        f"CREATE STREAM s (at STRING) WITH (kafka_topic='{topic}', partitions=1, timestamp='at', "
        f"timestamp_format='yyyy-MM-dd'); CREATE STREAM t WITH (kafka_topic='{topic}_t') AS SELECT * FROM s;"
    )
    settings = {
        "ksql_queries_file": str(file),
        "ksql_timestamp_throw_on_invalid": "true",
        "ksql_persistence_default_format_value": "JSON",
    }
    for _ in range(2):  # the second time all of it is in the log already
        with SqlServer(group_broker.bootstrap, tmp_path / "state", topic, **settings) as server:
            status, body = server.call("POST", "/ksql", {"ksql": "DROP STREAM t;"})
            assert (status, "takes no others" in json.loads(body)["message"]) == (400, True)
            (shown,) = server.run("SHOW QUERIES;")
            assert [each["id"] for each in shown["queries"]] == ["CSAS_T_1"]
            with Producer(bootstrap_servers=group_broker.bootstrap) as producer:
                producer.send(topic, b'{"AT": "never"}')

            def told(server: SqlServer = server) -> str:
                (found,) = server.run("EXPLAIN CSAS_T_1;")
                return json.dumps(found["queryDescription"])

            until(lambda: "ends the query: its TIMESTAMP column AT" in told(), "nothing is told", 180)
            assert server.stop() == 0
