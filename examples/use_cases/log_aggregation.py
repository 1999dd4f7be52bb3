"""Log aggregation: lines of files on many machines become one topic, and from there one file per service and day.

The shipper remembers nothing: where a file was read to is the header of the last record it sent, so a shipper that is
started again goes on there. The collector writes the lines of a batch, then commits: after a crash some may be there
twice, none is missing; with offsets kept in the files' names, as Spark's sink does, it would be each once.
"""

import socket
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from common import BOOTSTRAP, ensure_topic, until_told

from headwater.client import Consumer, ConsumerRecord, Producer, read

TOPIC = "logs"


def ship(service: str, path: Path) -> None:
    """Sends what is in the file and is not in the topic.
    One line is one record; the key keeps a file's lines in order.
    """
    key = f"{socket.gethostname()}:{path.resolve()}"
    start = shipped_until(key)
    with path.open("rb") as file, Producer(bootstrap_servers=BOOTSTRAP, acks="all") as producer:
        file.seek(start)
        for line in file:
            if not line.endswith(b"\n"):
                break  # somebody is still writing it
            start += len(line)
            headers = [("service", service.encode()), ("end", b"%d" % start)]
            producer.send(TOPIC, line.rstrip(b"\n"), key=key, headers=headers)


def shipped_until(key: str) -> int:
    end = 0
    for batch in read(TOPIC, bootstrap_servers=BOOTSTRAP, progress=False).to_arrow().to_batches():
        for row in batch.select(["key", "headers"]).to_pylist():
            if row["key"] == key.encode():
                headers = {header["key"]: header["value"] for header in row["headers"]}
                end = max(end, int(headers["end"]))
    return end


def collect(directory: Path) -> None:
    consumer = Consumer(
        bootstrap_servers=BOOTSTRAP, group_id="collector", auto_offset_reset="earliest", enable_auto_commit=False
    )
    consumer.subscribe([TOPIC])

    def handle(records: Sequence[ConsumerRecord]) -> None:
        texts: dict[Path, list[bytes]] = {}
        for record in records:
            day = datetime.fromtimestamp(record.timestamp_ms / 1000, UTC).date()
            service = (record.header("service") or b"unknown").decode()
            texts.setdefault(directory / f"{service}-{day}.log", []).append(record.key + b" " + record.value + b"\n")
        for path, lines in texts.items():
            with path.open("ab") as file:
                file.writelines(lines)
        consumer.commit(records)
        print(f"{time.strftime('%H:%M:%S')}  {len(records)} lines", flush=True)

    directory.mkdir(parents=True, exist_ok=True)
    until_told(consumer, handle)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["ship", service, path]:
            ensure_topic(TOPIC)
            ship(service, Path(path))
        case ["collect", directory]:
            ensure_topic(TOPIC)
            collect(Path(directory))
        case _:
            sys.exit("log_aggregation.py ship SERVICE FILE | log_aggregation.py collect DIRECTORY")
