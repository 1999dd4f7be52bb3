"""Brokers among themselves have no quotas; who only calls itself a broker has."""

from typing import Any

import pytest

from headwater.broker.context import ConnectionContext, RequestContext
from headwater.broker.quotas.exemptions import is_between_brokers
from headwater.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from headwater.wire.messages.api_versions import ApiVersionsRequest
from headwater.wire.messages.create_topics import CreateTopicsRequest
from headwater.wire.messages.fetch import FetchRequest, ReplicaState
from headwater.wire.messages.metadata import MetadataRequest
from headwater.wire.messages.write_txn_markers import WriteTxnMarkersRequest

FORWARDED = "__forwarded-broker-1"


def fetch(replica_id: int) -> FetchRequest:
    return FetchRequest(replica_state=ReplicaState(replica_id=replica_id), topics=[], forgotten_topics_data=[])


OF_BROKERS: list[tuple[Any, int, str]] = [
    (fetch(2), 17, "broker-1"),
    (AddPartitionsToTxnRequest(transactions=[]), 4, "broker-1"),
    (WriteTxnMarkersRequest(markers=[]), 1, "broker-1"),
    (CreateTopicsRequest(topics=[]), 7, FORWARDED),
    (ApiVersionsRequest(client_software_name="headwater", client_software_version="controller"), 3, "broker-1"),
]
OF_CLIENTS: list[tuple[Any, int, str]] = [
    (fetch(-1), 17, FORWARDED),
    (MetadataRequest(topics=None), 9, FORWARDED),
    (AddPartitionsToTxnRequest(transactions=[]), 3, FORWARDED),
    (CreateTopicsRequest(topics=[]), 7, "c"),
    (ApiVersionsRequest(client_software_name="apache-kafka-java", client_software_version="4"), 3, FORWARDED),
]


@pytest.fixture
def clustered(make_lab: Any) -> Any:
    def make(**settings: str) -> Any:
        lab = make_lab(
            listeners="INTERNAL://127.0.0.1:1,PLAINTEXT://127.0.0.1:2",
            listener_security_protocol_map="INTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            inter_broker_listener_name="INTERNAL",
            **settings,
        )
        lab.broker.peers = object()
        return lab

    return make


def asks(lab: Any, what: tuple[Any, int, str], listener: str, principal: str = "User:ANONYMOUS") -> bool:
    request, version, client_id = what
    connection = ConnectionContext("h", 1, listener, principal)
    return is_between_brokers(lab.broker, RequestContext(connection, request.KEY, version, client_id), request)


def test_without_an_authorizer_the_listener_says_who_is_a_broker(clustered: Any) -> None:
    lab = clustered()
    assert [asks(lab, each, "INTERNAL") for each in OF_BROKERS] == [True] * len(OF_BROKERS)
    assert [asks(lab, each, "PLAINTEXT") for each in OF_BROKERS] == [False] * len(OF_BROKERS)
    assert [asks(lab, each, "INTERNAL") for each in OF_CLIENTS] == [False] * len(OF_CLIENTS)


def test_with_an_authorizer_rights_say_it(clustered: Any) -> None:
    lab = clustered(
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer", super_users="User:broker"
    )
    for listener in ("INTERNAL", "PLAINTEXT"):
        assert [asks(lab, each, listener, "User:broker") for each in OF_BROKERS] == [True] * len(OF_BROKERS)
        assert [asks(lab, each, listener, "User:alice") for each in OF_BROKERS] == [False] * len(OF_BROKERS)
        assert [asks(lab, each, listener, "User:broker") for each in OF_CLIENTS] == [False] * len(OF_CLIENTS)


def test_a_broker_alone_is_asked_by_clients_only(make_lab: Any) -> None:
    assert [asks(make_lab(), each, "PLAINTEXT") for each in OF_BROKERS] == [False] * len(OF_BROKERS)
