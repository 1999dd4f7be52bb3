"""The SQL queries that are measured; StreamsPeer.java has the same as topologies of Kafka Streams.

`python -m bench.sql_apps SCENARIO BROKERS APPLICATION STATE COMMIT_MS` runs one until its input closes, as the server
runs its persistent queries.
"""

import sys

from headwater.sql.plan.session import PersistentQuery, Session

STREAM = "CREATE STREAM s (id INT KEY, name STRING, amount INT) WITH (kafka_topic='{0}.in', value_format='JSON');"
TABLE = "CREATE TABLE u (id INT PRIMARY KEY, who STRING) WITH (kafka_topic='{0}.other', value_format='JSON');"
STATEMENTS = {
    "sql-filter-project": "CREATE STREAM t WITH (kafka_topic='{0}.out') AS "
    "SELECT id, UCASE(name) AS name, amount * 2 AS twice FROM s WHERE amount > 1;",
    "sql-windowed-count": "CREATE TABLE t WITH (kafka_topic='{0}.out') AS "
    "SELECT id, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY id;",
    "sql-stream-table-join": "CREATE STREAM t WITH (kafka_topic='{0}.out') AS "
    "SELECT s.id AS id, amount, who FROM s JOIN u ON s.id = u.id;",
}


def make(scenario: str, brokers: str, application: str) -> PersistentQuery:
    session = Session(brokers=brokers, service_id=application)
    session.run("\n".join((STREAM, TABLE, STATEMENTS[scenario])).format(application))
    (query,) = session.queries.values()
    return query


def main() -> None:
    scenario, brokers, application, state, commit_ms = sys.argv[1:6]
    query = make(scenario, brokers, application)
    with query.app.run_here(state_dir=state, commit_interval_ms=int(commit_ms)):
        print("ready", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
