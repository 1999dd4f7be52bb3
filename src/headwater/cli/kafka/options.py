"""Options as Kafka's tools take them: `--name value` or `--name=value`, each spelled out, in any order.

Wrong usage is said on stderr, with all the options after it, and ends with exit code 1, as it does there. What older
tools took, and books still show, is taken and explained: `--broker-list`, which is what `--bootstrap-server` was
called, `--zookeeper`, which is looked into for the brokers, old names of single options, one dash instead of two, and
two options without a space between them.
"""

import re
import sys
import textwrap
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Final, NamedTuple, NoReturn

from headwater.cli.script_errors import Stop as Stop
from headwater.cli.script_errors import Usage as Usage

KAFKA_VERSION: Final = "4.3.0"  # whose tools these follow
_NUMBER: Final = re.compile(r"[-+]?[0-9]{1,40}")
_HELP_WIDTH: Final = 80
_NAMES_WIDTH: Final = 40


class Option(NamedTuple):
    """`value` names what follows the option; none follows if it is empty. `optional`: the value may be left out. `old`
    is what it was called once.
    """

    name: str
    help: str
    value: str = ""
    optional: bool = False
    old: str = ""


BOOTSTRAP: Final = Option("bootstrap-server", "REQUIRED: The server(s) to connect to.", "server to connect to")
COMMAND_CONFIG: Final = Option("command-config", "Property file with configs of the client.", "config file")
_COMMON: Final = (
    Option("help", "Print usage information."),
    Option("version", "Display the version of Kafka whose tool this follows."),
)
_OLD: Final = (Option("broker-list", "", "server"), Option("zookeeper", "", "urls"))


class Options:
    """What was typed: every value of every option, in order. Owned by one run of one script."""

    def __init__(self, found: dict[str, list[str | None]], order: Sequence[tuple[str, str | None]] = ()) -> None:
        self._found = found
        self.order = tuple(order)  # every option with its value, as they were typed

    def __contains__(self, name: str) -> bool:
        return name in self._found

    def get(self, name: str, default: str | None = None) -> str | None:
        """The last value given."""
        values = [value for value in self._found.get(name, ()) if value is not None]
        return values[-1] if values else default

    def with_value(self, name: str, value: str) -> "Options":
        """The same, and this one beside them."""
        return Options({**self._found, name: [value]}, self.order)

    def all(self, name: str) -> list[str]:
        return [value for value in self._found.get(name, ()) if value is not None]

    def number(self, name: str, default: int | None = None, *, bits: int = 64) -> int | None:
        """32 bits where the protocol has no more: partitions, and how many of them."""
        text = self.get(name)
        if text is None:
            return default
        number = whole_number(text, bits)
        if number is None:
            raise Usage(f"Cannot parse argument '{text}' of option {name}")
        return number

    def properties(self, *names: str) -> dict[str, str]:
        """key=value pairs of several options, the later over the earlier."""
        pairs = {}
        for name in names:
            for text in self.all(name):
                key, equals, value = text.partition("=")
                if not equals:  # Apache's tools repeat it; it may be a password
                    raise Usage(f"Invalid command line properties: one of --{name} is not key=value")
                pairs[key] = value
        return pairs

    # Checks in Kafka's words

    def require(self, *names: str) -> None:
        for name in names:
            if name not in self._found:
                raise Usage(f'Missing required argument "[{name}]"')

    def refuse_together(self, used: str, *others: str) -> None:
        for other in others:
            if used in self._found and other in self._found and used != other:
                raise Usage(f'Option "[{used}]" can\'t be used with option "[{other}]"')

    def bootstrap(self) -> str:
        """Where to connect. The old names are explained on stderr, once."""
        if "bootstrap-server" in self._found:
            if self.get("zookeeper") is not None:
                self._found["zookeeper"] = []
                _warn("--zookeeper is gone: the brokers are asked now. It is ignored.")
        elif "broker-list" in self._found:
            _warn("--broker-list is the old name of --bootstrap-server. It is taken as that.")
            self._found["bootstrap-server"] = self._found["broker-list"]
            return self.bootstrap()
        else:
            self.look_into_zookeeper()
        server = self.get("bootstrap-server")
        if server is None:
            raise Usage('Missing required argument "[bootstrap-server]"')
        return server

    def look_into_zookeeper(self) -> None:
        """--zookeeper becomes the --bootstrap-server of the brokers that are registered there."""
        connect = self.get("zookeeper")
        if connect is None:
            return
        from headwater.cli.kafka.registered_brokers import brokers_in

        brokers = brokers_in(connect)
        _warn(f"--zookeeper is gone: the brokers are asked now. Those of {connect} are --bootstrap-server {brokers}")
        self._found["bootstrap-server"] = [brokers]
        self._found["zookeeper"] = []


def whole_number(text: str, bits: int = 64) -> int | None:
    """As Java parses one: None for what is no number, or has no room in so many bits."""
    if _NUMBER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -(1 << bits - 1) <= number < 1 << bits - 1 else None


def _warn(message: str) -> None:
    sys.stderr.write(f"Warning: {message}\n")


def parse(arguments: Sequence[str], options: Sequence[Option]) -> Options:
    """Words that are not options are left out, as Kafka's tools do."""
    known = {option.name: option for option in (*_OLD, *_COMMON, *options)}
    old_names = {option.old: option.name for option in options if option.old}
    found: dict[str, list[str | None]] = {}
    order: list[tuple[str, str | None]] = []
    words = list(arguments)
    while words:
        spelled = todays(words.pop(0), known, old_names)
        if not spelled:
            continue
        words[:0] = spelled[1:]
        name, equals, given = spelled[0][2:].partition("=")
        option = known[name]
        value: str | None = given if equals else None
        if option.value and not equals:
            follows = bool(words) and not words[0].startswith("--")
            if follows:
                value = words.pop(0)
            elif not option.optional:
                raise Usage(f"Option {name} requires an argument")
        found.setdefault(name, []).append(value if option.value else None)
        order.append((name, value if option.value else None))
    return Options(found, order)


def todays(word: str, known: Container[str], old_names: Mapping[str, str]) -> list[str]:
    """An option as it is spelled today, with two dashes; several if they stood together; none if the word is none."""
    if not word.startswith("-") or word in ("-", "--"):
        return []
    name, equals, given = word.removeprefix("-").removeprefix("-").partition("=")
    if name in known:
        return [f"--{name}{equals}{given}"]
    if not word.startswith("--"):
        return []
    if name in old_names:
        _warn(f"--{name} is the old name of --{old_names[name]}. It is taken as that.")
        return [f"--{old_names[name]}{equals}{given}"]
    together = [f"--{each}" for each in name.split("--") if each in known]
    if len(together) > 1 and "".join(together) == f"--{name}":
        _warn(f"--{name} is taken as {' '.join(together)}.")
        return [*together[:-1], f"{together[-1]}{equals}{given}"]
    raise Usage(f"{name} is not a recognized option")


def usage_text(options: Sequence[Option]) -> str:
    lines = [f"{'Option':{_NAMES_WIDTH}}Description", f"{'------':{_NAMES_WIDTH}}-----------"]
    for option in sorted((*options, *_COMMON)):
        value = f" [{option.value}]" if option.optional else f" <{option.value}>" if option.value else ""
        left = textwrap.wrap(f"--{option.name}{value}", _NAMES_WIDTH - 2, subsequent_indent="  ")
        right = textwrap.wrap(option.help, _HELP_WIDTH - _NAMES_WIDTH, subsequent_indent="  ")
        for at in range(max(len(left), len(right))):
            first = left[at] if at < len(left) else ""
            second = right[at] if at < len(right) else ""
            lines.append(f"{first:{_NAMES_WIDTH}}{second}".rstrip())
    return "\n".join(lines) + "\n"


def run(about: str, options: Sequence[Option], action: Callable[[Options], int]) -> NoReturn:
    """Parses what was typed, runs the script and ends the process."""
    sys.exit(run_with(sys.argv[1:], about, options, action))


def run_with(arguments: Sequence[str], about: str, options: Sequence[Option], action: Callable[[Options], int]) -> int:
    from headwater.cli.kafka.exits import ended

    def body() -> int:
        parsed = parse(arguments, options)
        if "help" in parsed:
            raise Usage(about)
        if "version" in parsed:
            sys.stdout.write(f"{KAFKA_VERSION}\n")
            return 0
        return action(parsed)

    return ended(body, lambda: usage_text(options))
