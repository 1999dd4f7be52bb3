"""A cluster in which everything logs in over TLS:
brokers at each other and at ZooKeeper, clients and the test at brokers.

Brokers have certificates and the SCRAM user `broker`, which their settings name; at ZooKeeper they log in by DIGEST-MD5
over TLS, and its nodes are theirs alone. Clients are the SCRAM user `alice`, with rules for her topics and groups.
"""

import socket
import ssl
from pathlib import Path
from typing import Any

from chaos.support import asking
from chaos.support.cluster import Cluster
from chaos.support.network import HOST
from chaos.support.processes import WAIT_S
from compat.support.secured_zookeeper import KAFKA, jaas_module, start_again, start_secured
from headwater.base.security.sasl_client import Credentials
from headwater.client import Admin
from headwater.client.admin.acls import AclBinding, AclOperation, AclResourceType
from headwater.client.admin.scram import ScramMechanism, ScramUpsertion
from headwater.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from headwater.wire.messages.sasl_handshake import SaslHandshakeRequest

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
CANARY = "canary-2203"  # in every password of brokers and clients
REAUTHENTICATION_MS = 2000
OWN = [
    AclBinding(AclResourceType.TOPIC, "*", "User:alice", AclOperation.READ),
    AclBinding(AclResourceType.TOPIC, "*", "User:alice", AclOperation.WRITE),
    AclBinding(AclResourceType.GROUP, "*", "User:alice", AclOperation.READ),
]


class SecuredCluster(Cluster):
    listener = "CLIENTS"

    def __init__(self, directory: Path, brokers: int = 3) -> None:
        directory.mkdir(parents=True)
        self._zookeeper = start_secured(directory)
        self.authority = self._zookeeper.authority
        self._passwords = {"broker": f"{CANARY}-broker", "alice": f"{CANARY}-alice"}
        self.client_settings = self.login("alice")
        super().__init__(directory, brokers, 1, self._settings())

    def _settings(self) -> dict[str, str]:
        return {
            "listener.security.protocol.map": "CLIENTS:SASL_SSL,BETWEEN:SASL_SSL",
            "ssl.keystore.location": self.authority.pem("broker"),
            "ssl.truststore.location": self.authority.path,
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
            "sasl.jaas.config": f'{SCRAM} username="broker" password="{self._passwords["broker"]}";',
            "connections.max.reauth.ms": str(REAUTHENTICATION_MS),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:broker",
            **self._zookeeper.tls(),
            "headwater.zookeeper.sasl.jaas.config": jaas_module(KAFKA),
            "zookeeper.set.acl": "true",
        }

    def login(self, user: str) -> dict[str, str]:
        """For librdkafka, and for our client, which knows its names."""
        return {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": self.authority.path,
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": self._passwords[user],
        }

    def add_alice(self) -> None:
        with Admin({"bootstrap.servers": self.bootstrap, **self.login("broker")}) as admin:
            password = self._passwords["alice"].encode()
            added = admin.alter_user_scram_credentials([ScramUpsertion("alice", password, ScramMechanism.SHA_512)])
            assert added == {"alice": None}
            assert set(admin.create_acls(OWN).values()) == {None}

    # What a plain cluster does without logins

    def _start_servers(self, _directory: Path, count: int) -> list[tuple[str, int]]:
        assert count == 1
        self.servers = [self._zookeeper.process]
        return [(HOST, self._zookeeper.secure_port)]

    def start_servers(self) -> None:
        if not self.servers[0].is_alive:
            self._zookeeper = start_again(self._zookeeper)
            self.servers = [self._zookeeper.process]

    def _port(self, number: int = 0) -> asking.Door:
        port = self.members[number or self.well()[0]].port
        return lambda: self._connected(port)

    def _connected(self, port: int) -> socket.socket:
        context = ssl.create_default_context(cafile=self.authority.path)
        plain = socket.create_connection((HOST, port), WAIT_S)
        try:
            connection = context.wrap_socket(plain, server_hostname=HOST)
        except OSError as problem:  # the broker has gone meanwhile
            plain.close()
            raise ConnectionError(str(problem)) from None
        try:
            self._log_in(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _log_in(self, connection: socket.socket) -> None:
        credentials = Credentials("SCRAM-SHA-512", "broker", self._passwords["broker"])
        greeted = asking.ask_on(connection, SaslHandshakeRequest(mechanism=credentials.mechanism), 1)
        assert greeted.error_code == 0, greeted
        client = credentials.login()
        message: bytes | None = client.first()
        while message is not None:
            answer: Any = asking.ask_on(connection, SaslAuthenticateRequest(auth_bytes=message), 2)
            assert answer.error_code == 0, answer.error_message
            message = client.receive(bytes(answer.auth_bytes))
