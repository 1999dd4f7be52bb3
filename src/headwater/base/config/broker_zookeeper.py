"""Broker properties: how the broker is secured towards ZooKeeper. Apache Kafka's names, until it dropped ZooKeeper.

Like the other settings of ZooKeeper they are not listed by DescribeConfigs unless they were set; the docs list them.
"""

from typing import Final

from headwater.base.config.definition import ConfigType, Definition, Importance
from headwater.base.config.validators import OneOf

BOOLEAN, STRING, LIST, PASSWORD = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.LIST, ConfigType.PASSWORD
HIGH, LOW = Importance.HIGH, Importance.LOW

# fmt: off
# one row, one line
_ROWS: Final = (
    Definition("headwater.zookeeper.sasl.jaas.config", PASSWORD, None, "Headwater's own: the login at ZooKeeper, as a login module with its options, in place of the section `Client` of the JAAS file that KAFKA_OPTS names (-Djava.security.auth.login.config)."),
    Definition("zookeeper.set.acl", BOOLEAN, False, "Whether the nodes that the broker makes in ZooKeeper may be changed by its own login only. It needs a login, by SASL or by a certificate.", importance=HIGH),
    Definition("zookeeper.ssl.client.enable", BOOLEAN, False, "Whether the broker speaks TLS with ZooKeeper; zookeeper.connect then names secure ports."),
    Definition("zookeeper.clientCnxnSocket", STRING, None, "Taken from Apache Kafka's files: there, TLS needs org.apache.zookeeper.ClientCnxnSocketNetty. Here it needs nothing."),
    Definition("zookeeper.ssl.keystore.location", STRING, None, "The file of this broker's key and certificate, which it shows to ZooKeeper: PEM, PKCS#12 or JKS. It is read again when it changes."),
    Definition("zookeeper.ssl.keystore.password", PASSWORD, None, "The password of that file and of the key in it."),
    Definition("zookeeper.ssl.keystore.type", STRING, None, "PEM, PKCS12 or JKS. Which one a file is, is told by looking.", OneOf("PEM", "PKCS12", "JKS", ignore_case=True)),
    Definition("zookeeper.ssl.truststore.location", STRING, None, "The file of the certificates that are trusted: PEM, PKCS#12 or JKS. Without one, those of the system."),
    Definition("zookeeper.ssl.truststore.password", PASSWORD, None, "The password of that file."),
    Definition("zookeeper.ssl.truststore.type", STRING, None, "PEM, PKCS12 or JKS.", OneOf("PEM", "PKCS12", "JKS", ignore_case=True)),
    Definition("zookeeper.ssl.protocol", STRING, None, "The version of TLS, if zookeeper.ssl.enabled.protocols names none.", importance=LOW),
    Definition("zookeeper.ssl.enabled.protocols", LIST, [], "The versions of TLS: TLSv1.2, TLSv1.3; both if nothing is said.", importance=LOW),
    Definition("zookeeper.ssl.cipher.suites", LIST, [], "The cipher suites of TLS 1.2, by their IANA names.", importance=LOW),
    Definition("zookeeper.ssl.endpoint.identification.algorithm", STRING, "HTTPS", "HTTPS: the certificate of a ZooKeeper server must name its host. Empty: any host.", importance=LOW),
)
# fmt: on

DEFINITIONS: Final = tuple(row._replace(hidden=True) for row in _ROWS)
