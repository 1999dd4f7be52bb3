"""The synchronous face of the admin client. Any number of threads may use one `Admin`."""

from collections.abc import Callable, Coroutine, Mapping
from threading import get_ident
from typing import TYPE_CHECKING, Any, TypeVar

from headwater.client.admin.calls import Blocking, LazyModule
from headwater.client.admin.running import Running, closed
from headwater.client.reactor.thread_engine import Engine
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


class Admin:
    """Looks after a cluster: topics, settings, groups, transactions, replicas, access rules.

        with Admin(bootstrap_servers="localhost:9092") as admin:
            all_or_raise(admin.create_topics([NewTopic("orders", partitions=3)]))

    Calls about one thing raise a `KafkaError`. Calls about many give a mapping from each thing to its answer, or to the
    error it met; `all_or_raise` is for those who want all of them. Nothing is connected before the first call.
    """

    def __init__(self, settings: Mapping[str, object] | None = None, **keywords: object) -> None:
        known = read_admin_settings(settings, keywords)
        self._engine = Engine(known.network(), patient=True, name="headwater-admin")
        self._session = Session(self._engine.kernel, self._engine.network, known.session)
        self._running = Running(self._engine.kernel)
        self._callers: set[int] = set()  # threads: close knows its own, which Ctrl-C may have kept from signing off
        self._closed = False

    # Topics

    list_topics = Blocking(lambda: topics.list_topics)
    describe_topic = Blocking(lambda: topics.describe_topic)
    describe_topics = Blocking(lambda: topics.describe_topics)
    describe_topic_partitions = Blocking(lambda: topics.describe_topic_partitions)
    create_topics = Blocking(lambda: topics.create_topics)
    delete_topics = Blocking(lambda: topics.delete_topics)
    delete_topics_by_id = Blocking(lambda: topics.delete_topics_by_id)
    create_partitions = Blocking(lambda: topics.create_partitions)

    # Records

    list_offsets = Blocking(lambda: records.list_offsets)
    delete_records = Blocking(lambda: records.delete_records)

    # Settings

    describe_configs = Blocking(lambda: configs.describe_configs)
    alter_configs = Blocking(lambda: configs.alter_configs)
    replace_configs = Blocking(lambda: configs.replace_configs)
    list_config_resources = Blocking(lambda: configs.list_config_resources)
    list_client_metrics = Blocking(lambda: configs.list_client_metrics)

    # The cluster

    describe_cluster = Blocking(lambda: cluster.describe_cluster)
    describe_api_versions = Blocking(lambda: cluster.describe_api_versions)
    describe_features = Blocking(lambda: cluster.describe_features)
    update_features = Blocking(lambda: cluster.update_features)
    unregister_broker = Blocking(lambda: cluster.unregister_broker)

    # Log directories

    describe_log_dirs = Blocking(lambda: log_dirs.describe_log_dirs)
    alter_replica_log_dirs = Blocking(lambda: log_dirs.alter_replica_log_dirs)

    # Replicas

    elect_leaders = Blocking(lambda: replication.elect_leaders)
    alter_partition_reassignments = Blocking(lambda: replication.alter_partition_reassignments)
    list_partition_reassignments = Blocking(lambda: replication.list_partition_reassignments)

    # Groups

    list_groups = Blocking(lambda: groups.list_groups)
    describe_group = Blocking(lambda: groups.describe_group)
    describe_groups = Blocking(lambda: groups.describe_groups)
    delete_groups = Blocking(lambda: groups.delete_groups)
    remove_members = Blocking(lambda: members.remove_members)
    list_group_offsets = Blocking(lambda: committed.list_group_offsets)
    alter_group_offsets = Blocking(lambda: committed.alter_group_offsets)
    delete_group_offsets = Blocking(lambda: committed.delete_group_offsets)

    # Transactions

    list_transactions = Blocking(lambda: transactions.list_transactions)
    describe_transaction = Blocking(lambda: transactions.describe_transaction)
    describe_transactions = Blocking(lambda: transactions.describe_transactions)
    describe_producers = Blocking(lambda: transactions.describe_producers)
    abort_transaction = Blocking(lambda: transactions.abort_transaction)
    fence_producers = Blocking(lambda: transactions.fence_producers)

    # Security

    describe_acls = Blocking(lambda: acls.describe_acls)
    create_acls = Blocking(lambda: acls.create_acls)
    delete_acls = Blocking(lambda: acls.delete_acls)
    describe_client_quotas = Blocking(lambda: quotas.describe_client_quotas)
    alter_client_quotas = Blocking(lambda: quotas.alter_client_quotas)
    describe_user_scram_credentials = Blocking(lambda: scram.describe_user_scram_credentials)
    alter_user_scram_credentials = Blocking(lambda: scram.alter_user_scram_credentials)

    # For what stands on the same connections

    @property
    def session(self) -> Session:
        return self._session

    def run(self, call: Callable[[Session], Coroutine[Any, Any, T]]) -> T:
        """What a coroutine on this client's session gives."""
        with self._engine.lock:
            if self._closed:
                raise closed()
            self._callers.add(get_ident())
        try:
            return self._engine.run(self._running.call(call(self._session)))
        finally:
            with self._engine.lock:
                self._callers.discard(get_ident())
                self._engine.lock.notify_all()

    def close(self) -> None:
        """Closes the connections. Calls under way in other threads end with an error, and are waited for."""
        self._engine.interrupted()
        with self._engine.lock:
            if self._closed:
                return
            self._closed = True
            self._callers.discard(get_ident())
            self._running.end()
            self._engine.kernel.run_ready()
            self._engine.network.wake()
            while self._callers:
                self._engine.lock.notify_all()
                self._engine.lock.wait()
            self._session.close()
        self._engine.close()

    def __enter__(self) -> "Admin":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
