"""`zookeeper-security-migration --zookeeper.acl secure|unsecure`: changes who may use the nodes of a cluster that is
there.

`secure` gives every node to the login of this command, which must be the brokers' own: nobody else may change it, and
those that hold secrets nobody else may read. `unsecure` opens all of them again. The login comes from KAFKA_OPTS (a
JAAS file), or from a certificate that --zk-tls-config-file names. Brokers with `zookeeper.set.acl=true` make new nodes
so.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

from headwater.base.errors import UserError
from headwater.cli.kafka.options import Option, Options, Stop, Usage, run_with

if TYPE_CHECKING:
    from headwater.server.zookeeper.browser import Browser
    from headwater.server.zookeeper.security import ZooKeeperSecurity

ABOUT: Final = "Changes the ACLs of Kafka's nodes in ZooKeeper, when logins at ZooKeeper are set up or given up."
OPTIONS: Final = (
    Option(
        "zookeeper.acl", "REQUIRED: secure: only the brokers' login may change the nodes. unsecure: anybody.", "acl"
    ),
    Option(
        "zookeeper.connect", "ZooKeeper's servers, host:port with commas, and a path (default: localhost:2181).", "urls"
    ),
    Option("zookeeper.session.timeout", "How long a session may be silent, in ms (default: 30000).", "ms"),
    Option("zookeeper.connection.timeout", "How long the connection may take, in ms (default: 30000).", "ms"),
    Option("enable.path.check", "End without a change if a root path is missing, as with a wrong path in the address."),
    Option("zk-tls-config-file", "A file with zookeeper.ssl.* settings; other settings in it are ignored.", "file"),
)
_TIMEOUT_MS: Final = 30_000
_AT_ONCE: Final = 200
_NOT_MADE: Final = ("/controller", "/controller_epoch")  # an election makes them, with what belongs into them


def main() -> NoReturn:
    sys.exit(script(sys.argv[1:]))


def script(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> int:
    return run_with(arguments, ABOUT, OPTIONS, lambda options: _migrate(options, environment))


def _migrate(options: Options, environment: Mapping[str, str]) -> int:
    from headwater.server.zookeeper.browser import Browser

    options.require("zookeeper.acl")
    if options.get("zookeeper.acl") not in ("secure", "unsecure"):
        raise Usage(f"zookeeper.acl is secure or unsecure, and not {options.get('zookeeper.acl')}")
    is_secured = options.get("zookeeper.acl") == "secure"
    security = security_for(options.get("zk-tls-config-file"), environment)
    connect = options.get("zookeeper.connect", "localhost:2181") or ""
    session_ms = options.number("zookeeper.session.timeout", _TIMEOUT_MS) or _TIMEOUT_MS
    connect_ms = options.number("zookeeper.connection.timeout", _TIMEOUT_MS) or _TIMEOUT_MS
    with Browser(connect, security, session_timeout_ms=session_ms, connect_timeout_ms=connect_ms) as browser:
        check_roots(browser, is_demanded="enable.path.check" in options)
        count = migrate(browser, is_secured=is_secured)
    owner = "belong to this login" if is_secured else "are open to anybody"
    sys.stderr.write(f"{count} nodes {owner} now.\n")
    return 0


def security_for(tls_file: str | None, environment: Mapping[str, str]) -> "ZooKeeperSecurity":
    """Raises Stop where there is no login: a node cannot be given to nobody."""
    from headwater.server.zookeeper.security import JAAS_FILE, security_of_tool, system_properties

    security = security_of_tool(tls_file, environment)
    if security.login is not None or security.has_certificate:
        return security
    file = system_properties(environment).get(JAAS_FILE)
    if file:
        raise Stop(1, f"ERROR: Security isn't enabled, most likely the file isn't set properly: {file}")
    raise Stop(
        1,
        "ERROR: No JAAS configuration file has been specified and no TLS client certificate has been specified. Set the"
        f" system property {JAAS_FILE} (KAFKA_OPTS=-D{JAAS_FILE}=...), or give --zk-tls-config-file a file with"
        " zookeeper.ssl.client.enable and zookeeper.ssl.keystore.location",
    )


def check_roots(browser: "Browser", *, is_demanded: bool) -> None:
    from headwater.metadata.cluster.node_acls import SECURED_ROOTS

    missing = [path for path in SECURED_ROOTS if not browser.exists(path)]
    if missing:
        sys.stdout.write(
            f"Warning: The following secure root paths do not exist in ZooKeeper: {','.join(missing)}\n"
            "That might be due to an incorrect chroot is specified when executing the command.\n"
        )
        if is_demanded:
            sys.stdout.write("Exit the command.\n")
            raise Stop(1)


def migrate(browser: "Browser", *, is_secured: bool) -> int:
    """How many nodes were changed. Roots that are missing are made, so that nobody else can make them."""
    from headwater.metadata.cluster.node_acls import SECURED_ROOTS

    browser.set_acls("/", _acls("/", is_secured))
    waiting: list[str] = []
    for root in SECURED_ROOTS:
        if not browser.exists(root):
            if root in _NOT_MADE:
                continue
            _make(browser, root, _acls(root, is_secured))
        waiting.append(root)
    count = 1
    while waiting:
        some, waiting = waiting[:_AT_ONCE], waiting[_AT_ONCE:]
        found = browser.set_acls_and_list({path: _acls(path, is_secured) for path in some})
        count += len(found)
        waiting += [f"{path}/{name}" for path, names in found.items() for name in names]
    return count


def _make(browser: "Browser", path: str, acls: list[Any]) -> None:
    try:
        browser.create(path, b"", acls=acls)
    except UserError:
        if not browser.exists(path):  # somebody else has made it meanwhile
            raise


def _acls(path: str, is_secured: bool) -> list[Any]:
    from headwater.server.zookeeper.kazoo_client import acls_of

    return acls_of(path, is_secured=is_secured)


if __name__ == "__main__":
    main()
