"""`zookeeper-shell host:port[/path] [-zk-tls-config-file file] [command]`: looks at ZooKeeper's nodes and changes
them, in the words of its own shell. It logs in by the JAAS file that KAFKA_OPTS names, if it names one.

Without a command, commands are read from stdin, one in a line. Results go to stdout, everything else to stderr.
"""

import shlex
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from headwater.base.errors import UserError
from headwater.cli.kafka.options import Stop, Usage

if TYPE_CHECKING:
    from headwater.server.zookeeper.browser import Browser

_USAGE: Final = "USAGE: zookeeper-shell zookeeper_host:port[/path] [-zk-tls-config-file file] [command]\n"
_TLS_FILE: Final = ("-zk-tls-config-file", "--zk-tls-config-file")
_PERMISSIONS: Final = {"c": 4, "d": 8, "r": 1, "w": 2, "a": 16}
_ENDS: Final = ("quit", "exit", "close")
_ANY_VERSION: Final = "-1"


class Command(NamedTuple):
    """`flags` are letters, those with a value followed by a colon; `words` are [least, most] after them."""

    synopsis: str
    flags: str
    words: tuple[int, int]
    act: Callable[["Browser", dict[str, str], list[str]], None]


def main() -> NoReturn:
    sys.exit(script(sys.argv[1:]))


def script(arguments: Sequence[str]) -> int:
    from headwater.cli.kafka.exits import ended

    return ended(lambda: _run(list(arguments)), lambda: _USAGE)


def _run(arguments: list[str]) -> int:
    from headwater.server.zookeeper.browser import Browser
    from headwater.server.zookeeper.security import security_of_tool

    if arguments[:1] == ["-server"]:
        arguments.pop(0)
    if not arguments or arguments[0].startswith("-"):
        raise Usage("ZooKeeper's address is missing.")
    connect, *words = arguments
    tls_file = None
    if words[:1] and words[0] in _TLS_FILE:
        if len(words) < 2:
            raise Usage(f"{words[0]} needs the name of a file.")
        _, tls_file, *words = words
    security = security_of_tool(tls_file)
    if words:
        parsed = parse_command(words)  # a mistake is told before anything is asked of anybody
        with Browser(connect, security) as browser:
            try:
                _act(browser, *parsed)
            except UserError as refusal:
                raise Stop(1, str(refusal)) from None
        return 0
    sys.stderr.write(f"Connecting to {connect}\n")
    with Browser(connect, security) as browser:
        return _read_commands(browser)


def _read_commands(browser: "Browser") -> int:
    number = 0
    while True:
        if sys.stdin.isatty():
            sys.stderr.write(f"[zk: {number}] ")
            sys.stderr.flush()
        line = sys.stdin.readline()
        number += 1
        try:
            words = shlex.split(line)
            if not line or (words and words[0] in _ENDS):
                return 0
            if words:
                _act(browser, *parse_command(words))
        except (Stop, UserError, ValueError) as problem:
            sys.stdout.flush()
            sys.stderr.write(f"{problem.message if isinstance(problem, Stop) else problem}\n")
        sys.stdout.flush()


def parse_command(words: Sequence[str]) -> tuple[Command, dict[str, str], list[str]]:
    """The command, its flags, and the words after them."""
    name, *rest = words
    command = COMMANDS.get(name)
    if command is None:
        raise Stop(1, f"Command not found: {name}\n{help_text()}")
    flags: dict[str, str] = {}
    left: list[str] = []
    while rest:
        word = rest.pop(0)
        letter = word[1:]
        if len(word) != 2 or word[0] != "-" or letter not in command.flags or letter == ":":
            left.append(word)
        elif f"{letter}:" in command.flags:
            if not rest or not rest[0].lstrip("-").isdigit():
                raise Stop(1, f"{word} needs a number\n{command.synopsis}")
            flags[letter] = rest.pop(0)
        else:
            flags[letter] = ""
    least, most = command.words
    if not least <= len(left) <= most:
        raise Stop(1, command.synopsis)
    if left and not left[0].startswith("/"):
        raise Stop(1, f"Path must start with / character: {left[0]}")
    return command, flags, left


def help_text() -> str:
    return "\n".join(f"\t{command.synopsis}" for command in COMMANDS.values())


def stat_text(stat: Any) -> str:
    return "".join(
        f"{name} = {value}\n"
        for name, value in (
            ("cZxid", f"{stat.czxid:#x}"),
            ("ctime", _time_text(stat.ctime)),
            ("mZxid", f"{stat.mzxid:#x}"),
            ("mtime", _time_text(stat.mtime)),
            ("pZxid", f"{stat.pzxid:#x}"),
            ("cversion", stat.cversion),
            ("dataVersion", stat.version),
            ("aclVersion", stat.aversion),
            ("ephemeralOwner", f"{stat.ephemeralOwner & 0xFFFFFFFFFFFFFFFF:#x}"),
            ("dataLength", stat.dataLength),
            ("numChildren", stat.numChildren),
        )
    )


def _time_text(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%a %b %d %H:%M:%S UTC %Y")


def _act(browser: "Browser", command: Command, flags: dict[str, str], words: list[str]) -> None:
    command.act(browser, flags, words)


def _list(browser: "Browser", flags: dict[str, str], words: list[str]) -> None:
    if "R" in flags:
        for path in browser.below(words[0]):
            _say(path)
        return
    _say(f"[{', '.join(browser.children(words[0]))}]")
    _say_stat(browser, flags, words[0])


def _get(browser: "Browser", flags: dict[str, str], words: list[str]) -> None:
    _say(browser.get(words[0]).decode("utf-8", "replace"))
    _say_stat(browser, flags, words[0])


def _stat(browser: "Browser", _flags: dict[str, str], words: list[str]) -> None:
    sys.stdout.write(stat_text(browser.stat(words[0])))


def _create(browser: "Browser", flags: dict[str, str], words: list[str]) -> None:
    data = words[1].encode() if len(words) > 1 else b""
    made = browser.create(words[0], data, ephemeral="e" in flags, sequential="s" in flags)
    _say(f"Created {made}")


def _set(browser: "Browser", flags: dict[str, str], words: list[str]) -> None:
    browser.set(words[0], words[1].encode(), int(flags.get("v", _ANY_VERSION)))
    _say_stat(browser, flags, words[0])


def _delete(browser: "Browser", flags: dict[str, str], words: list[str]) -> None:
    browser.delete(words[0], int(flags.get("v", _ANY_VERSION)))


def _delete_all(browser: "Browser", _flags: dict[str, str], words: list[str]) -> None:
    browser.delete_all(words[0])


def _get_acl(browser: "Browser", _flags: dict[str, str], words: list[str]) -> None:
    for acl in browser.acls(words[0]):
        letters = "".join(letter for letter, bit in _PERMISSIONS.items() if acl.perms & bit)
        _say(f"'{acl.id.scheme},'{acl.id.id}\n: {letters}")


def _set_acl(browser: "Browser", flags: dict[str, str], words: list[str]) -> None:
    browser.set_acls(words[0], parse_acls(words[1]), int(flags.get("v", _ANY_VERSION)))
    _say_stat(browser, flags, words[0])


def parse_acls(text: str) -> list[Any]:
    """scheme:id:permissions, with commas between several; the id may have colons in it."""
    from kazoo.security import ACL, Id

    acls = []
    for part in text.split(","):
        scheme, _, rest = part.partition(":")
        who, colon, letters = rest.rpartition(":")
        if not colon or not letters or set(letters) - set(_PERMISSIONS):
            raise UserError(f"{part} is no ACL", "it is scheme:id:permissions", "Write: world:anyone:cdrwa")
        acls.append(ACL(sum(_PERMISSIONS[letter] for letter in set(letters)), Id(scheme, who)))
    return acls


def _help(_browser: "Browser", _flags: dict[str, str], _words: list[str]) -> None:
    _say(help_text())


def _say_stat(browser: "Browser", flags: dict[str, str], path: str) -> None:
    if "s" in flags:
        sys.stdout.write(stat_text(browser.stat(path)))


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


COMMANDS: Final = {
    "ls": Command("ls [-s] [-R] path", "sR", (1, 1), _list),
    "get": Command("get [-s] path", "s", (1, 1), _get),
    "stat": Command("stat path", "", (1, 1), _stat),
    "create": Command("create [-s] [-e] path [data]", "se", (1, 2), _create),
    "set": Command("set [-s] [-v version] path data", "sv:", (2, 2), _set),
    "delete": Command("delete [-v version] path", "v:", (1, 1), _delete),
    "deleteall": Command("deleteall path", "", (1, 1), _delete_all),
    "getAcl": Command("getAcl path", "", (1, 1), _get_acl),
    "setAcl": Command("setAcl [-s] [-v version] path acl", "sv:", (2, 2), _set_acl),
    "help": Command("help", "", (0, 0), _help),
}


if __name__ == "__main__":
    main()
