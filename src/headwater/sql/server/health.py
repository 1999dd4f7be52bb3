"""What /healthcheck and /clusterStatus tell, in ksqlDB's shapes.

Healthy is a server whose brokers answer (`kafka`), that carries out the statements of its log (`commandRunner`: not if
it does not have the code of a function that another server has accepted, and does not run the queries that need it),
and that has carried out all that the log had (`metastore`). A query that has died is told beside it (`queries`) and
makes no server unhealthy: it is started again, and another server would not do better.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import KafkaError, UserError
from headwater.base.ids import TopicPartition
from headwater.client.types import LATEST

if TYPE_CHECKING:
    from headwater.sql.plan.session import PersistentQuery
    from headwater.sql.server.node import SqlNode

logger = logging.getLogger("headwater.sql")
_PATIENCE_S: Final = 5.0
_RUNS: Final = ("STARTING", "RESTORING", "RUNNING")


class Health:
    """Looks at most once per interval, however many ask."""

    def __init__(self, node: SqlNode) -> None:
        self._node = node
        self._looking = asyncio.Lock()
        self._found: tuple[float, dict[str, Any]] | None = None

    async def look(self) -> dict[str, Any]:
        interval_s = self._node.config.number("ksql.healthcheck.interval.ms") / 1000
        async with self._looking:
            now = asyncio.get_running_loop().time()
            if self._found is None or now - self._found[0] >= interval_s:
                self._found = now, await self._look()
            return self._found[1]

    async def _look(self) -> dict[str, Any]:
        node = self._node
        kafka, metastore, _ = await asyncio.gather(self._brokers_answer(), self._is_up_to_date(), node.ask_states())
        dead = [each for each in node.engine.session.queries if node.state(each).state == "ERROR"]
        queries = node.engine.session.queries.values()
        carries_out = node.follows and not node.engine.withheld and not any(each.withheld for each in queries)
        checks = {"metastore": metastore and node.follows, "kafka": kafka, "commandRunner": carries_out}
        details = {name: {"isHealthy": is_healthy} for name, is_healthy in checks.items()}
        details["queries"] = {"isHealthy": not dead}
        state = "READY" if node.follows else "ERROR"
        return {"isHealthy": all(checks.values()), "details": details, "serverState": state}

    async def _brokers_answer(self) -> bool:
        topic = self._node.config.command_topic
        try:
            async with asyncio.timeout(_PATIENCE_S):
                found = (await self._node.admin.describe_topics([topic]))[topic]
        except (KafkaError, UserError, OSError, TimeoutError) as problem:
            logger.warning("event=brokers_do_not_answer reason=%r", str(problem))
            return False
        return not isinstance(found, KafkaError)

    async def _is_up_to_date(self) -> bool:
        """Whether what the log has now is carried out, at once or within moments."""
        try:
            async with asyncio.timeout(_PATIENCE_S):
                while await self._node.statements_behind():
                    await asyncio.sleep(0.05)
        except (KafkaError, UserError, OSError, TimeoutError):
            return False
        return True


async def cluster_status(node: SqlNode) -> dict[str, Any]:
    """Each server by its address: whether it is there, what it runs, and how far the stores of that are behind. The one
    that leads runs all queries.
    """
    if node.watch is None:
        return {}
    await node.ask_states()
    shown = {}
    for address, status in node.watch.statuses().items():
        running, lags = await _running(node) if status.leads and status.alive else ({}, {})
        shown[address] = {
            "hostAlive": status.alive,
            "lastStatusUpdateMs": status.updated_ms,
            "activeStandbyPerQuery": running,
            "hostStoreLags": {"stateStoreLags": lags, "updateTimeMs": time.time_ns() // 1_000_000 if lags else 0},
        }
    return shown


async def _running(node: SqlNode) -> tuple[dict[str, Any], dict[str, Any]]:
    """Queries with their stores and partitions, and the lags of the stores."""
    session = node.engine.session
    running = [each for each in session.queries.values() if node.state(each.id).state in _RUNS]
    counts = {each.name: len(each.partitions) for each in await node.admin.list_topics()}
    shown = {
        each.id: {
            "activeStores": sorted(each.app.topology().stores),
            "activePartitions": _places(each, node, counts),
            "standByStores": [],
            "standByPartitions": [],
        }
        for each in running
    }
    return shown, await _lags(node, running, counts)


async def _lags(node: SqlNode, queries: Iterable[PersistentQuery], counts: Mapping[str, int]) -> dict[str, Any]:
    """Of each store that has a changelog, by partition: how far its state is, and where the changelog ends. A store
    that is restored has all that its query has committed.
    """
    changelogs = [
        (query, name, [TopicPartition(topic, each) for each in range(counts.get(topic, 0))])
        for query in queries
        for name, store in query.app.topology().stores.items()
        if (topic := store.changelog_topic(query.app.name)) is not None
    ]
    wanted = [place for _, _, places in changelogs for place in places]
    ends = await node.admin.list_offsets(dict.fromkeys(wanted, LATEST)) if wanted else {}
    lags: dict[str, Any] = {}
    for query, name, places in changelogs:
        restored = {each.partition: each.position for each in node.restoring(query.id) if each.store == name}
        known = {each.partition: end.offset for each in places if not isinstance(end := ends[each], KafkaError)}
        lags[f"{query.app.name}#{name}"] = {
            "lagByPartition": {str(number): lag(restored.get(number, end), end) for number, end in known.items()}
        }
    return lags


def lag(position: int, end: int) -> dict[str, int]:
    """In ksqlDB's shape."""
    return {"currentOffsetPosition": position, "endOffsetPosition": end, "offsetLag": max(0, end - position)}


def _places(query: PersistentQuery, node: SqlNode, counts: dict[str, int]) -> list[dict[str, Any]]:
    """The partitions that a query reads: of its sources, and of its own repartition topics."""
    sources = node.engine.session.catalog.sources
    read = [sources[each].topic for each in query.sources if each in sources]
    own = [each for each in counts if each.startswith(f"{query.app.name}-") and each.endswith("-repartition")]
    topics = dict.fromkeys([*read, *sorted(own)])
    return [{"topic": name, "partition": number} for name in topics for number in range(counts.get(name, 0))]
