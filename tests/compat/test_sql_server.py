"""`headwater sql server` on a broker: ksqlDB's REST calls, push and pull queries, and queries that outlive their
server.
"""

import base64
import json
import subprocess
import sys
from pathlib import Path

import pytest

import headwater.sql
from compat.support.broker import BrokerProcess
from compat.support.members import until
from compat.support.sql_server import SqlServer
from headwater.client import Admin, Producer

_SOURCE = "CREATE STREAM s (id INT KEY, n STRING, v INT) WITH (kafka_topic='{}', value_format='JSON', partitions=2);"
_TOTALS = (
    "CREATE TABLE totals WITH (kafka_topic='{}-totals') AS SELECT n, COUNT(*) AS c, SUM(v) AS total FROM s GROUP BY n;"
)


def test_statements_and_queries_over_http(group_broker: BrokerProcess, topic: str, tmp_path: Path) -> None:
    with SqlServer(group_broker.bootstrap, tmp_path, topic) as server:
        status, body = server.call("GET", "/info")
        assert (status, json.loads(body)["KsqlServerInfo"]["ksqlServiceId"]) == (200, topic)
        (made,) = server.run(_SOURCE.format(topic))
        assert made["commandStatus"] == {"status": "SUCCESS", "message": "Stream created", "queryId": None}
        (made,) = server.run(_TOTALS.format(topic))
        assert made["commandStatus"]["queryId"] == "CTAS_TOTALS_1"
        for number in range(6):
            server.run(f"INSERT INTO s VALUES ({number}, 'n{number % 2}', {number});")
        wanted = [["n0", 3, 6], ["n1", 3, 9]]
        until(lambda: server.ask("SELECT * FROM totals ORDER BY n;") == wanted, "the totals do not come", 180)
        assert server.ask("SELECT total FROM totals WHERE n = 'n1';") == [[9]]
        assert server.ask("SELECT SUM(c) AS c FROM totals;") == [[6]]
        join = "SELECT s.id, t.total FROM s JOIN totals t ON s.n = t.n WHERE t.total > 6 ORDER BY s.id;"
        assert server.ask(join) == [[1, 9], [3, 9], [5, 9]]
        within = "SELECT n FROM totals WHERE total = (SELECT MAX(total) FROM totals);"
        assert server.ask(within) == [["n1"]]
        assert server.ask("SELECT n, COUNT(*) AS c FROM s GROUP BY n ORDER BY n;") == [["n0", 3], ["n1", 3]]
        raw = f"SELECT COUNT(*) AS n FROM `{topic}` WHERE VALUE LIKE '%n1%';"
        assert server.ask(raw) == [[3]]
        status, body = server.call("POST", "/query-stream", {"sql": "SELECT * FROM nowhere;"})
        assert (status, "NOWHERE does not exist" in json.loads(body)["message"]) == (400, True)
        assert sorted(server.ask("SELECT id FROM s WHERE v >= 4;")) == [[4], [5]]
        pushed = server.ask("SELECT id, v * 2 AS w FROM s EMIT CHANGES LIMIT 6;", **{"auto.offset.reset": "earliest"})
        assert sorted(pushed) == [[number, number * 2] for number in range(6)]
        sent = server.messages("SELECT id FROM s EMIT CHANGES LIMIT 6;", **{"auto.offset.reset": "earliest"})
        assert [each["name"] for each in json.loads(sent[0])] == ["ID"]
        assert sorted(json.loads(each)["row"]["columns"] for each in sent[1:-2]) == [[each] for each in range(6)]
        assert sent[-2:] == ['{"error":"done"}', "1000 done"]
        status, body = server.call("POST", "/query", {"ksql": f"PRINT '{topic}' FROM BEGINNING LIMIT 6;"})
        keys, values, *lines = body.decode().splitlines()
        assert (status, keys) == (200, "Key format: KAFKA_INT or KAFKA_STRING")
        assert values == "Value format: JSON or KAFKA_STRING"
        assert sorted(line.split(", ")[1] for line in lines if line) == [f"key: {number}" for number in range(6)]
        told, refused = server.messages("SELECT * FROM nowhere;")
        assert refused.startswith("1003 ")
        assert "NOWHERE does not exist" in refused
        assert "NOWHERE does not exist" in json.loads(told)["error"]
        (shown,) = server.run("SHOW QUERIES;")
        assert [(each["id"], each["state"]) for each in shown["queries"]] == [("CTAS_TOTALS_1", "RUNNING")]
        with server.pushed("SELECT id FROM s EMIT CHANGES;") as lines:
            running = json.loads(next(lines))["queryId"]
            server.run("INSERT INTO s VALUES (7, 'late', 7);")  # it runs, so this is one of its rows
            assert json.loads(next(lines)) == [7]
            assert running in [each["id"] for each in server.run("SHOW QUERIES;")[0]["queries"]]
            (ended,) = server.run(f"TERMINATE {running};")
            assert ended["wasTerminated"]
            assert list(lines) == []
        (extended,) = server.run("DESCRIBE totals EXTENDED;")
        (progress,) = extended["sourceDescription"]["queryOffsetSummaries"]
        assert topic in [each["kafkaTopic"] for each in progress["topicSummaries"]]
        (extended,) = server.run("SHOW TOPICS EXTENDED;")
        counts = {each["name"]: each["consumerGroupCount"] for each in extended["topics"]}
        assert counts[topic] == 1
        (described,) = server.run("DESCRIBE totals;")
        fields = [(each["name"], each["schema"]["type"]) for each in described["sourceDescription"]["fields"]]
        assert fields == [("N", "STRING"), ("C", "BIGINT"), ("TOTAL", "INTEGER")]
        status, body = server.call("POST", "/ksql", {"ksql": "CREATE STREAM x AS SELECT id, amont FROM s;"})
        assert (status, json.loads(body)["error_code"]) == (400, 40001)
        command = [sys.executable, "-m", "headwater.cli.main", "sql", "--server", server.url, "-o", "json", "-e"]
        lines = subprocess.run(
            [*command, "SELECT * FROM totals WHERE n < 'o' AND n > 'm' ORDER BY n"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert [json.loads(each)["TOTAL"] for each in lines.stdout.splitlines()] == [6, 9]
        with headwater.sql.connect(server.url) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT n, total FROM totals WHERE n = ? ORDER BY n", ["n1"])
            assert [each[0] for each in cursor.description or ()] == ["N", "TOTAL"]
            assert [each[1] == headwater.sql.NUMBER for each in cursor.description or ()] == [False, True]
            assert cursor.fetchall() == [("n1", 9)]
            for wrong in ("SELECT nothing FROM totals", "DESCRIBE nothing"):
                with pytest.raises(connection.ProgrammingError) as refused:
                    cursor.execute(wrong)
                assert refused.value.code == 40001
        server.run("DROP TABLE totals DELETE TOPIC;")
        assert server.run("SHOW TABLES;")[0]["tables"] == []
        assert server.stop() == 0


def test_queries_come_back_after_a_kill_and_count_each_record_once(
    group_broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    def next_life() -> SqlServer:
        """Its groups keep the place of a server that stopped for longer than this test may take."""
        return SqlServer(group_broker.bootstrap, tmp_path, topic, ksql_streams_session_timeout_ms="1800000")

    sent = 0
    for life in range(3):
        with next_life() as server:
            if life == 0:
                server.run(_SOURCE.format(topic))
                server.run(_TOTALS.format(topic))
            assert [each["id"] for each in server.run("SHOW QUERIES;")[0]["queries"]] == ["CTAS_TOTALS_1"]
            for _ in range(10):
                server.run(f"INSERT INTO s VALUES ({sent}, 'n', 1);")
                sent += 1
            if life > 0:
                _until_counted(server, sent)
            # killed as it stands: the first time before anything was counted, later in the middle of counting
            for _ in range(5):
                server.run(f"INSERT INTO s VALUES ({sent}, 'n', 1);")
                sent += 1
    with next_life() as server:
        _until_counted(server, sent)
        assert server.stop() == 0
    with Admin({"bootstrap.servers": group_broker.bootstrap}) as admin:
        (name,) = [
            each.group_id for each in admin.list_groups() if each.group_id.startswith(f"_confluent-ksql-{topic}query")
        ]
        # it stays a member, so that the next run need not wait for a first rebalance
        assert len(admin.describe_groups([name])[name].members) == 1
        with next_life() as server:  # and nothing was counted after that
            _until_counted(server, sent)
            server.run("TERMINATE ALL;")
            until(lambda: name not in [each.group_id for each in admin.list_groups()], "the group stays", 120)


def _until_counted(server: SqlServer, count: int) -> None:
    until(lambda: server.ask("SELECT c, total FROM totals;") == [[count, count]], "the total is another", 180)


def test_what_a_review_found(group_broker: BrokerProcess, topic: str, tmp_path: Path) -> None:
    """More queries than a pool has threads; a table made anew; joins of a push query;
    rows for the server's own topics.
    """
    with SqlServer(group_broker.bootstrap, tmp_path, topic) as server:
        server.run(_SOURCE.format(topic))
        for number in range(8):
            server.run(f"CREATE STREAM c{number} WITH (kafka_topic='{topic}-c{number}') AS SELECT * FROM s;")
        table = f"CREATE TABLE t (id INT PRIMARY KEY, w STRING) WITH (kafka_topic='{topic}-t', value_format='JSON', partitions=2);"
        server.run(table)
        server.run("INSERT INTO t VALUES (1, 'one'); INSERT INTO t VALUES (2, 'two');")
        assert server.ask("SELECT COUNT(*) AS n FROM t;") == [[2]]
        server.run("INSERT INTO s VALUES (1, 'a', 5);")
        join = "SELECT s.id AS id, v, w, s.ROWOFFSET AS at FROM s JOIN t ON s.id = t.id EMIT CHANGES LIMIT 1;"
        assert server.ask(join, **{"auto.offset.reset": "earliest"}) == [[1, 5, "one", 0]]
        server.run("DROP TABLE t DELETE TOPIC;")
        until(lambda: server.call("POST", "/ksql", {"ksql": table})[0] == 200, "the table cannot be made anew", 120)
        server.run("INSERT INTO t VALUES (3, 'three');")
        assert server.ask("SELECT id FROM t;") == [[3]]
        server.run(
            f"CREATE STREAM log (`statement` STRING) WITH (kafka_topic='_confluent-ksql-{topic}_command_topic', value_format='JSON');"
        )
        status, _ = server.call("POST", "/inserts-stream", {"target": "LOG"})
        assert status == 400
        status, body = server.call("POST", "/query", {"ksql": "PRINT nowhere;"})
        assert (status, json.loads(body)["error_code"]) == (400, 40000)
        acks = server.insert("s", {"ID": 7, "N": "b", "V": 1}, {"id": 8, "n": "b"}, {"id": 9, "x": 1})
        assert [(each["status"], each["seq"]) for each in acks] == [("ok", 0), ("ok", 1), ("error", 2)]
        assert sorted(server.ask("SELECT id, v FROM s WHERE n = 'b';")) == [[7, 1], [8, None]]
        server.run("TERMINATE ALL;")
        assert server.run("SHOW QUERIES;")[0]["queries"] == []
        assert server.stop() == 0


def test_functions_of_python_and_rows_that_are_no_rows(group_broker: BrokerProcess, topic: str, tmp_path: Path) -> None:
    """CREATE FUNCTION, where the config allows it; and the processing log, which tells of rows that were left out."""
    code = "def wordy(text: str) -> int:\n    return 1 // (len(text) - 3)\n"
    with SqlServer(group_broker.bootstrap, tmp_path, topic) as server:
        status, body = server.call("POST", "/ksql", {"ksql": f"CREATE FUNCTION wordy AS $${code}$$;"})
        assert (status, "not allowed on this server" in json.loads(body)["message"]) == (400, True)
        assert server.stop() == 0
    with SqlServer(
        group_broker.bootstrap,
        tmp_path,
        topic,
        ksql_functions_python_source_enabled="true",
        ksql_logging_processing_rows_include="true",
    ) as server:
        (made,) = server.run(f"CREATE FUNCTION wordy AS $${code}$$;")
        assert made["commandStatus"]["message"] == "Created function WORDY"
        (shown,) = server.run("DESCRIBE FUNCTION wordy;")
        assert [each["signature"] for each in shown["functions"]] == ["(text STRING)"]
        server.run(_SOURCE.format(topic))
        server.run(f"CREATE STREAM w WITH (kafka_topic='{topic}-w') AS SELECT id, wordy(n) AS w FROM s;")
        server.run("INSERT INTO s VALUES (1, 'four', 1); INSERT INTO s VALUES (2, 'odd', 1);")
        with Producer({"bootstrap.servers": group_broker.bootstrap}) as producer:
            producer.send(topic, b"{no row", key=b"\x00\x00\x00\x01").result(60)
        server.run("INSERT INTO s VALUES (3, 'fives', 1);")
        until(lambda: len(server.ask("SELECT id FROM w;")) == 3, "the rows do not come", 180)
        assert sorted(server.ask("SELECT id, w FROM w;")) == [[1, 1], [2, None], [3, 0]]
        asked = "SELECT id, wordy(n) AS w FROM s WHERE id <> 2 ORDER BY ROWTIME DESC, ROWOFFSET;"  # by DuckDB
        assert server.ask(asked) == [[3, 0], [1, 1]]
        log = f"SELECT VALUE FROM `{topic}ksql_processing_log`;"
        until(lambda: server.call("POST", "/query-stream", {"sql": log})[0] == 200, "there is no processing log", 120)
        until(lambda: len(server.ask(log)) == 2, "the processing log does not come", 120)
        entries = sorted((json.loads(row[0]) for row in server.ask(log)), key=lambda each: each["message"]["type"])
        undecoded, failed = (each["message"] for each in entries)
        assert undecoded["deserializationError"]["topic"] == topic
        assert undecoded["deserializationError"]["recordB64"] == base64.b64encode(b"{no row").decode()
        assert "by zero" in failed["recordProcessingError"]["errorMessage"]
        assert entries[0]["logger"].startswith("processing.CSAS_W_")
        status, body = server.call("POST", "/ksql", {"ksql": "DROP FUNCTION wordy;"})
        assert (status, "The following queries use it" in json.loads(body)["message"]) == (400, True)
        assert server.stop() == 0


def test_queries_whose_functions_a_server_may_not_have_are_in_error_and_come_back(
    group_broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """A user started a server without the setting: the queries were gone, and so were their streams."""
    allowed = {"ksql_functions_python_source_enabled": "true"}
    with SqlServer(group_broker.bootstrap, tmp_path, topic, **allowed) as server:
        server.run("CREATE FUNCTION loud AS $$def loud(text: str) -> str: return text.upper()$$;")
        server.run(_SOURCE.format(topic))
        server.run(f"CREATE STREAM w WITH (kafka_topic='{topic}-w') AS SELECT id, loud(n) AS w FROM s;")
        server.run("INSERT INTO s VALUES (1, 'ada', 1);")
        until(lambda: server.ask("SELECT id, w FROM w;") == [[1, "ADA"]], "the row does not come", 180)
        assert server.stop() == 0
    with SqlServer(group_broker.bootstrap, tmp_path, topic) as server:
        until(lambda: server.run("SHOW QUERIES;")[0]["queries"][0]["state"] == "ERROR", "it has no state", 120)
        (query,) = server.run("SHOW QUERIES;")[0]["queries"]
        assert query["statusCount"] == {"ERROR": 1}
        (told,) = server.run(f"EXPLAIN {query['id']};")
        assert "ksql.functions.python.source.enabled=true" in json.dumps(told)
        _, body = server.call("GET", "/healthcheck")
        assert not json.loads(body)["isHealthy"]
        assert not json.loads(body)["details"]["commandRunner"]["isHealthy"]
        status, body = server.call("POST", "/query-stream", {"sql": "SELECT loud(n) AS n FROM s;"})
        assert (status, "not allowed on this server" in json.loads(body)["message"]) == (400, True)
        server.run("INSERT INTO s VALUES (2, 'grace', 1);")
        assert server.ask("SELECT id, w FROM w;") == [[1, "ADA"]]
        assert server.stop() == 0
    with SqlServer(group_broker.bootstrap, tmp_path, topic, **allowed) as server:
        until(lambda: len(server.ask("SELECT id FROM w;")) > 1, "the query does not come back", 180)
        assert sorted(server.ask("SELECT id, w FROM w;")) == [[1, "ADA"], [2, "GRACE"]]
        assert server.stop() == 0
