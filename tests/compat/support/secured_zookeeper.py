"""A ZooKeeper that knows users by SASL and by their certificates, with a plain port and one for TLS."""

from pathlib import Path
from typing import NamedTuple

from compat.support.certificates import Authority
from headwater.server.zookeeper.process import ZooKeeperProcess, free_ports, start
from headwater.server.zookeeper.security import SaslLogin

START_S = 180  # Java, Netty and TLS on a machine that is busy
CANARY = "canary-8812"  # in every password
KAFKA, OTHER = SaslLogin("kafka", f"{CANARY}-kafka"), SaslLogin("other", f"{CANARY}-other")
DIGEST = "org.apache.zookeeper.server.auth.DigestLoginModule required"
PROVIDER = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"


class SecuredZooKeeper(NamedTuple):
    process: ZooKeeperProcess
    secure_port: int
    authority: Authority
    directory: Path

    @property
    def address(self) -> str:
        return self.process.address

    @property
    def secure_address(self) -> str:
        return f"127.0.0.1:{self.secure_port}"

    def tls(self, certificate: str | None = None) -> dict[str, str]:
        """Settings of a client; with the certificate of that name, if one is wanted."""
        settings = {
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
            "zookeeper.ssl.truststore.location": self.authority.path,
        }
        if certificate is not None:
            settings["zookeeper.ssl.keystore.location"] = self.authority.pem(certificate)
        return settings

    def options(self, login: SaslLogin) -> str:
        """KAFKA_OPTS of a client with that login."""
        path = self.directory / f"{login.username}.conf"
        path.write_text(jaas_file(login))
        return f"-Djava.security.auth.login.config={path}"


def jaas_file(login: SaslLogin) -> str:
    return f'Client {{\n  {DIGEST}\n  username="{login.username}"\n  password="{login.password}";\n}};\n'


def jaas_module(login: SaslLogin) -> str:
    return f'{DIGEST} username="{login.username}" password="{login.password}";'


def server_jaas(directory: Path) -> Path:
    path = directory / "server.conf"
    users = " ".join(f'user_{login.username}="{login.password}"' for login in (KAFKA, OTHER))
    path.write_text(f"Server {{\n  {DIGEST} {users};\n}};\n")
    return path


def start_secured(directory: Path) -> SecuredZooKeeper:
    authority = Authority(directory)
    plain, secure = free_ports(2)
    authority.pem("zookeeper")
    return _start(directory, authority, plain, secure)


def start_again(ended: SecuredZooKeeper) -> SecuredZooKeeper:
    """On the directory and the ports of one that has ended."""
    return _start(ended.directory, ended.authority, ended.process.port, ended.secure_port)


def _start(directory: Path, authority: Authority, plain: int, secure: int) -> SecuredZooKeeper:
    settings = {
        "authProvider.sasl": PROVIDER,
        "secureClientPort": secure,
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.keyStore.location": authority.directory / "zookeeper.pem",
        "ssl.trustStore.location": authority.path,
        "ssl.clientAuth": "want",
    }
    options = [f"-Djava.security.auth.login.config={server_jaas(directory)}"]
    process = start(directory / "zookeeper", plain, settings=settings, java_options=options, is_awaited=False)
    try:
        process.wait_until_serving(START_S)
    except BaseException:
        process.kill()
        raise
    return SecuredZooKeeper(process, secure, authority, directory)
