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
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


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
            inter_broker_listener_name="INTERNAL",
            **{"listener_security_protocol_map": "INTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT", **settings},
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


def test_with_an_authorizer_rights_say_it_too(clustered: Any) -> None:
    lab = clustered(authorizer_class_name=AUTHORIZER, super_users="User:broker")
    assert [asks(lab, each, "INTERNAL", "User:broker") for each in OF_BROKERS] == [True] * len(OF_BROKERS)
    assert [asks(lab, each, "INTERNAL", "User:alice") for each in OF_BROKERS] == [False] * len(OF_BROKERS)
    assert [asks(lab, each, "INTERNAL", "User:broker") for each in OF_CLIENTS] == [False] * len(OF_CLIENTS)


def test_a_right_that_everybody_has_makes_no_broker_of_clients(clustered: Any) -> None:
    lab = clustered(authorizer_class_name=AUTHORIZER, allow_everyone_if_no_acl_found="true")
    assert [asks(lab, each, "PLAINTEXT", "User:alice") for each in OF_BROKERS] == [False] * len(OF_BROKERS)


@pytest.mark.parametrize(
    "rights", [{}, {"authorizer_class_name": AUTHORIZER, "allow_everyone_if_no_acl_found": "true"}]
)
def test_what_is_sent_on_is_believed_of_the_user_of_brokers_alone(clustered: Any, rights: dict[str, str]) -> None:
    sent_on = (CreateTopicsRequest(topics=[]), 7, FORWARDED)
    lab = clustered(
        **rights,
        listener_security_protocol_map="INTERNAL:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
        sasl_enabled_mechanisms="SCRAM-SHA-512",
        sasl_mechanism_inter_broker_protocol="SCRAM-SHA-512",
        sasl_jaas_config=(
            'org.apache.kafka.common.security.scram.ScramLoginModule required username="broker" password="p";'
        ),
    )
    assert asks(lab, sent_on, "INTERNAL", "User:broker")
    assert not asks(lab, sent_on, "INTERNAL", "User:alice")
    assert not asks(lab, sent_on, "PLAINTEXT", "User:broker")


def test_a_broker_alone_is_asked_by_clients_only(make_lab: Any) -> None:
    assert [asks(make_lab(), each, "PLAINTEXT") for each in OF_BROKERS] == [False] * len(OF_BROKERS)
