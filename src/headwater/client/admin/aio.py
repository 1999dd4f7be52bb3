"""The asyncio face of the admin client. Used within one running loop, by any number of its tasks."""

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from headwater.client.admin.calls import Asynchronous, LazyModule
from headwater.client.admin.running import Running, closed
from headwater.client.reactor.aio import AioEngine
from headwater.client.session import Session
from headwater.client.settings.admin import read_admin_settings

if TYPE_CHECKING:
    from headwater.client.admin import (
        acls,
        cluster,
        committed,
        configs,
        groups,
        log_dirs,
        members,
        quotas,
        records,
        replication,
        scram,
        topics,
        transactions,
    )
else:
    acls = LazyModule("headwater.client.admin.acls")
    cluster = LazyModule("headwater.client.admin.cluster")
    committed = LazyModule("headwater.client.admin.committed")
    configs = LazyModule("headwater.client.admin.configs")
    groups = LazyModule("headwater.client.admin.groups")
    log_dirs = LazyModule("headwater.client.admin.log_dirs")
    members = LazyModule("headwater.client.admin.members")
    quotas = LazyModule("headwater.client.admin.quotas")
    records = LazyModule("headwater.client.admin.records")
    replication = LazyModule("headwater.client.admin.replication")
    scram = LazyModule("headwater.client.admin.scram")
    topics = LazyModule("headwater.client.admin.topics")
    transactions = LazyModule("headwater.client.admin.transactions")

T = TypeVar("T")


class AsyncAdmin:
    """`Admin` for asyncio: the same calls, awaited.

    async with AsyncAdmin(bootstrap_servers="localhost:9092") as admin:
        topics = await admin.list_topics()
    """

    def __init__(self, settings: Mapping[str, object] | None = None, **keywords: object) -> None:
        self._settings = read_admin_settings(settings, keywords)
        self._engine: AioEngine | None = None  # made at the first call: only then a loop is sure to run
        self._session: Session | None = None
        self._running: Running | None = None
        self._closed = False

    # Topics

    list_topics = Asynchronous(lambda: topics.list_topics)
    describe_topic = Asynchronous(lambda: topics.describe_topic)
    describe_topics = Asynchronous(lambda: topics.describe_topics)
    describe_topic_partitions = Asynchronous(lambda: topics.describe_topic_partitions)
    create_topics = Asynchronous(lambda: topics.create_topics)
    delete_topics = Asynchronous(lambda: topics.delete_topics)
    delete_topics_by_id = Asynchronous(lambda: topics.delete_topics_by_id)
    create_partitions = Asynchronous(lambda: topics.create_partitions)

    # Records

    list_offsets = Asynchronous(lambda: records.list_offsets)
    delete_records = Asynchronous(lambda: records.delete_records)

    # Settings

    describe_configs = Asynchronous(lambda: configs.describe_configs)
    alter_configs = Asynchronous(lambda: configs.alter_configs)
    replace_configs = Asynchronous(lambda: configs.replace_configs)
    list_config_resources = Asynchronous(lambda: configs.list_config_resources)
    list_client_metrics = Asynchronous(lambda: configs.list_client_metrics)

    # The cluster

    describe_cluster = Asynchronous(lambda: cluster.describe_cluster)
    describe_api_versions = Asynchronous(lambda: cluster.describe_api_versions)
    describe_features = Asynchronous(lambda: cluster.describe_features)
    update_features = Asynchronous(lambda: cluster.update_features)
    unregister_broker = Asynchronous(lambda: cluster.unregister_broker)

    # Log directories

    describe_log_dirs = Asynchronous(lambda: log_dirs.describe_log_dirs)
    alter_replica_log_dirs = Asynchronous(lambda: log_dirs.alter_replica_log_dirs)

    # Replicas

    elect_leaders = Asynchronous(lambda: replication.elect_leaders)
    alter_partition_reassignments = Asynchronous(lambda: replication.alter_partition_reassignments)
    list_partition_reassignments = Asynchronous(lambda: replication.list_partition_reassignments)

    # Groups

    list_groups = Asynchronous(lambda: groups.list_groups)
    describe_group = Asynchronous(lambda: groups.describe_group)
    describe_groups = Asynchronous(lambda: groups.describe_groups)
    delete_groups = Asynchronous(lambda: groups.delete_groups)
    remove_members = Asynchronous(lambda: members.remove_members)
    list_group_offsets = Asynchronous(lambda: committed.list_group_offsets)
    alter_group_offsets = Asynchronous(lambda: committed.alter_group_offsets)
    delete_group_offsets = Asynchronous(lambda: committed.delete_group_offsets)

    # Transactions

    list_transactions = Asynchronous(lambda: transactions.list_transactions)
    describe_transaction = Asynchronous(lambda: transactions.describe_transaction)
    describe_transactions = Asynchronous(lambda: transactions.describe_transactions)
    describe_producers = Asynchronous(lambda: transactions.describe_producers)
    abort_transaction = Asynchronous(lambda: transactions.abort_transaction)
    fence_producers = Asynchronous(lambda: transactions.fence_producers)

    # Security

    describe_acls = Asynchronous(lambda: acls.describe_acls)
    create_acls = Asynchronous(lambda: acls.create_acls)
    delete_acls = Asynchronous(lambda: acls.delete_acls)
    describe_client_quotas = Asynchronous(lambda: quotas.describe_client_quotas)
    alter_client_quotas = Asynchronous(lambda: quotas.alter_client_quotas)
    describe_user_scram_credentials = Asynchronous(lambda: scram.describe_user_scram_credentials)
    alter_user_scram_credentials = Asynchronous(lambda: scram.alter_user_scram_credentials)

    # For what stands on the same connections

    async def run(self, call: Callable[[Session], Coroutine[Any, Any, T]]) -> T:
        """What a coroutine on this client's session gives."""
        if self._closed:
            raise closed()
        if self._engine is None or self._session is None or self._running is None:
            self._engine = AioEngine(self._settings.network())
            self._session = Session(self._engine.kernel, self._engine.network, self._settings.session)
            self._running = Running(self._engine.kernel)
        return await self._engine.run(self._running.call(call(self._session)))

    async def close(self) -> None:
        """Closes the connections. Calls under way in other tasks end with an error."""
        self._closed = True
        engine, self._engine = self._engine, None
        if engine is not None and self._session is not None and self._running is not None:
            engine.submit(self._running.end)
            engine.submit(self._session.close)
            engine.close()

    async def __aenter__(self) -> "AsyncAdmin":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
