"""`sasl.jaas.config` as Java writes it: login modules, each with a flag and options, a semicolon behind each.

    org.apache.kafka.common.security.plain.PlainLoginModule required
        username="admin" password="secret" user_alice="wonder";

A JAAS file has sections of them, by name: `Client { ... };` holds the login at ZooKeeper (`parse_jaas_file`).

Values stand bare or in double quotes, with backslashes before quotes and backslashes. Comments are those of Java. The
parser is Java's grammar, no more, so that what works there works here; it says where it stopped, and never repeats a
value, since that may be a password.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from headwater.base.errors import UserError

FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_TEXT_MAX: Final = 1 << 20
_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|//[^\n]*|\#[^\n]*|/\*.*?\*/)
    |(?P<mark>[=;])
    |"(?P<quoted>(?:[^"\\]|\\.)*)"
    |'(?P<single>(?:[^'\\]|\\.)*)'
    |(?P<word>[^\s=;"']+)""",
    re.VERBOSE | re.DOTALL,
)
_IN_FILE: Final = re.compile(
    _TOKEN.pattern.replace("[=;]", "[=;{}]").replace(r"""[^\s=;"']+""", r"""[^\s=;{}"']+"""), _TOKEN.flags
)  # braces are marks there
_USER: Final = "user_"
_FILE_HINT: Final = "Write: Client { org.apache.zookeeper.server.auth.DigestLoginModule required ...; };"
_HINT: Final = 'Write: org.apache.kafka.common.security.plain.PlainLoginModule required username="..." password="...";'


class LoginModule(NamedTuple):
    name: str
    flag: str
    options: dict[str, str]

    def __repr__(self) -> str:
        return f"LoginModule({self.name}, {', '.join(self.options)})"  # values are passwords

    @property
    def short_name(self) -> str:
        """Without the package."""
        return self.name.rpartition(".")[2]

    def users(self) -> dict[str, str]:
        """Those that `user_<name>` options list, with their passwords."""
        return {name[len(_USER) :]: value for name, value in self.options.items() if name.startswith(_USER)}


def parse_jaas(text: str, setting: str = "sasl.jaas.config") -> list[LoginModule]:
    """Raises UserError."""
    if len(text) > _TEXT_MAX:
        raise _bad(setting, "it has more than a million characters")
    modules: list[LoginModule] = []
    tokens = _tokens(text, setting)
    for kind, name in tokens:
        modules.append(_module(kind, name, tokens, setting))
    if not modules:
        raise _bad(setting, "there is no login module in it")
    return modules


def parse_jaas_file(text: str, name: str) -> dict[str, list[LoginModule]]:
    """The sections of a JAAS file. `name` is what messages call it. Raises UserError."""
    if len(text) > _TEXT_MAX:
        raise _bad(name, "it has more than a million characters")
    sections: dict[str, list[LoginModule]] = {}
    tokens = _tokens(text, name, _IN_FILE)
    for kind, section in tokens:
        if kind not in ("word", "value") or next(tokens, ("end", "")) != ("mark", "{"):
            raise _bad(name, "a section begins with its name and a brace", _FILE_HINT)
        if section in sections:
            raise _bad(name, f"it has two sections {section}", _FILE_HINT)
        sections[section] = _section(tokens, name)
    return sections


def _section(tokens: Iterator[tuple[str, str]], name: str) -> list[LoginModule]:
    modules: list[LoginModule] = []
    for kind, word in tokens:
        if (kind, word) == ("mark", "}"):
            if next(tokens, ("end", "")) != ("mark", ";"):
                raise _bad(name, "the semicolon behind a section is missing", _FILE_HINT)
            return modules
        modules.append(_module(kind, word, tokens, name))
    raise _bad(name, "the brace at the end of a section is missing", _FILE_HINT)


def one_module(text: str, setting: str = "sasl.jaas.config") -> LoginModule:
    """The only one of a text that is for one client or one mechanism."""
    modules = parse_jaas(text, setting)
    if len(modules) != 1:
        raise _bad(setting, f"it has {len(modules)} login modules, and only one can be meant")
    return modules[0]


def _module(kind: str, name: str, tokens: Iterator[tuple[str, str]], setting: str) -> LoginModule:
    if kind != "word":
        raise _bad(setting, "a login module begins with the name of its class")
    kind, flag = next(tokens, ("end", ""))
    if kind != "word" or flag.lower() not in FLAGS:
        raise _bad(setting, f"behind the login module stands none of {', '.join(FLAGS)}")
    return LoginModule(name, flag.lower(), _options(tokens, setting))


def _options(tokens: Iterator[tuple[str, str]], setting: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for kind, name in tokens:
        if kind == "mark" and name == ";":
            return options
        if kind != "word" or next(tokens, ("end", "")) != ("mark", "="):
            raise _bad(
                setting, f"option number {len(options) + 1} is not written as name=value, or a semicolon is missing"
            )
        kind, value = next(tokens, ("end", ""))
        if kind not in ("word", "value"):
            raise _bad(setting, f"option number {len(options) + 1} has no value")
        if name in options:
            raise _bad(setting, f"option number {len(options) + 1} stands in it twice")
        options[name] = value
    raise _bad(setting, "the semicolon at its end is missing")


def _tokens(text: str, setting: str, token: "re.Pattern[str]" = _TOKEN) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(text):
        found = token.match(text, at)
        if found is None:
            raise _bad(setting, f"a quotation mark at character {at} has no end")
        at = found.end()
        if found["mark"]:
            yield "mark", found["mark"]
        elif found["word"]:
            yield "word", found["word"]
        elif not found["space"]:
            quoted = found["quoted"] if found["quoted"] is not None else found["single"]
            yield "value", re.sub(r"\\(.)", _unescaped, quoted, flags=re.DOTALL)


def _unescaped(found: "re.Match[str]") -> str:
    return {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}.get(found[1], found[1])


def _bad(setting: str, why: str, hint: str = _HINT) -> UserError:
    return UserError(f"Cannot read {setting}", why, hint)
