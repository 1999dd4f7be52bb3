"""Website activity tracking: what visitors do is published as it happens, and counted by whoever wants to.

The visitor is the key, so all that one visitor does stays in order. The page that publishes knows nothing of those who
listen: a second listener, with a group of its own, gets all of it too. `make demo` does this with Spark behind it.
"""

import json
import sys
import time
from collections import Counter
from collections.abc import Sequence

from common import BOOTSTRAP, ensure_topic, until_told

from headwater.client import Consumer, ConsumerRecord, Producer

TOPIC = "page-views"


def visit(page: str, visitor: str) -> None:
    with Producer(bootstrap_servers=BOOTSTRAP) as producer:
        view = {"page": page, "visitor": visitor, "time_ms": time.time_ns() // 1_000_000}
        producer.send(TOPIC, json.dumps(view), key=visitor)


def watch() -> None:
    views: Counter[str] = Counter()
    visitors: dict[str, set[str]] = {}
    consumer = Consumer(bootstrap_servers=BOOTSTRAP, group_id="popular-pages", auto_offset_reset="earliest")
    consumer.subscribe([TOPIC])

    def handle(records: Sequence[ConsumerRecord]) -> None:
        for record in records:
            view = json.loads(record.value)
            views[view["page"]] += 1
            visitors.setdefault(view["page"], set()).add(view["visitor"])
        for page, count in views.most_common(10):
            print(f"{count:6} views by {len(visitors[page])} visitors  {page}", flush=True)
        print(flush=True)

    until_told(consumer, handle)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["visit", page, visitor]:
            ensure_topic(TOPIC)
            visit(page, visitor)
        case ["watch"]:
            ensure_topic(TOPIC)
            watch()
        case _:
            sys.exit("activity_tracking.py visit PAGE VISITOR | activity_tracking.py watch")
