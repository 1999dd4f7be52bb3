"""The PyPI package `ksqldb` (requests, and HTTP/2 by httpx): what its users do. Arguments: the server's URL and a name
that is free. Prints a line of JSON for each step.
"""

import asyncio
import json
import sys

import requests
from ksqldb import KSQLdbClient

url, name = sys.argv[1:]
client = KSQLdbClient(url)


def show(step: str, value: object) -> None:
    print(json.dumps([step, value]))


async def pushed() -> list[object]:
    found: list[object] = []
    sql = f"SELECT word FROM {name}_words EMIT CHANGES;"
    async for each in client.query_async(sql, {"ksql.streams.auto.offset.reset": "earliest"}, timeout=60):
        found.append(each["columnNames"] if isinstance(each, dict) else each)
        if isinstance(each, dict):
            query_id = each["queryId"]
        elif len(found) == 3:
            assert await asyncio.to_thread(client.close_query, query_id)
    return found


create = (
    f"CREATE STREAM {name}_words (word VARCHAR, n INT) WITH (kafka_topic='{name}-words', partitions=1, format='JSON');"
)
show("statement", client.ksql(create)[0]["commandStatus"]["status"])
rows = [{"word": "tree", "n": 1}, {"word": "wind", "n": 2}]
show("inserted", [each["status"] for each in client.inserts_stream(f"{name}_words", rows)])
show("pulled", client.query_sync(f"SELECT word, n FROM {name}_words WHERE n > 1;", timeout=60)[1:])
show("pushed", asyncio.run(pushed()))
show("properties", {each["name"]: each["editable"] for each in client.get_properties()}["auto.offset.reset"])
try:
    client.ksql("SHOW NOTHING;")
except requests.HTTPError as error:
    show("wrong", [error.response.status_code, error.response.json()["error_code"]])
