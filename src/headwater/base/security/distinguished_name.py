"""The subject of a certificate as Java writes it (X500Principal, RFC 2253), and the user that mapping rules make of it.
Pure.

    CN=alice,OU=Orders,O=Example,C=DE

The last part of the name comes first. Java knows nine keywords by RFC 2253; other attributes are written by their
number with the bytes of their value in hexadecimal, as the RFC says. A certificate comes from a peer that a trusted
authority has signed; it is read with bounds all the same.
"""

import re
from typing import Final, NamedTuple

from headwater.base.errors import UserError

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_ENCODINGS: Final = {
    0x0C: "utf-8",
    0x13: "ascii",
    0x14: "latin-1",
    0x16: "ascii",
    0x1C: "utf-32-be",
    0x1E: "utf-16-be",
}
_VERSION: Final = 0xA0
_RULE: Final = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|$)", re.DOTALL)


class _Element(NamedTuple):
    tag: int
    start: int
    end: int


def subject_of(certificate: bytes) -> str:
    """Of a certificate in DER. Raises ValueError."""
    whole = _element(certificate, 0, len(certificate))
    body = _element(certificate, whole.start, whole.end)
    at = body.start
    fields: list[_Element] = []
    while at < body.end and len(fields) < 7:
        field = _element(certificate, at, body.end)
        at = field.end
        if field.tag != _VERSION:
            fields.append(field)
    return _name(certificate, fields[4])  # behind the serial number, the algorithm, the issuer and the validity


def _name(data: bytes, name: _Element) -> str:
    parts = []
    for relative in _children(data, name):
        pairs = [_attribute(data, pair) for pair in _children(data, relative)]
        parts.append("+".join(pairs))
    return ",".join(reversed(parts))


def _attribute(data: bytes, pair: _Element) -> str:
    number, value = _children(data, pair)
    oid = _oid(data[number.start : number.end])
    encoding = _ENCODINGS.get(value.tag)
    if oid not in _KEYWORDS or encoding is None:
        return f"{_KEYWORDS.get(oid, oid)}=#{data[number.end : value.end].hex()}"
    return f"{_KEYWORDS[oid]}={_escape(data[value.start : value.end].decode(encoding))}"


def _escape(text: str) -> str:
    escaped = re.sub(r'([,+"\\<>;])', r"\\\1", text)
    if escaped.startswith((" ", "#")):
        escaped = "\\" + escaped
    if escaped.endswith(" ") and len(text) > 1:
        escaped = escaped[:-1] + "\\ "
    return escaped


def _children(data: bytes, parent: _Element) -> list[_Element]:
    found, at = [], parent.start
    while at < parent.end:
        child = _element(data, at, parent.end)
        found.append(child)
        at = child.end
    return found


def _element(data: bytes, at: int, limit: int) -> _Element:
    if at + 2 > limit:
        raise ValueError("a certificate that ends too early")
    tag, size, start = data[at], data[at + 1], at + 2
    if size & 0x80:
        count = size & 0x7F
        if not 1 <= count <= 4:
            raise ValueError("a length that DER does not have")
        size, start = int.from_bytes(data[start : start + count]), start + count
    if start + size > limit:
        raise ValueError("a certificate that ends too early")
    return _Element(tag, start, start + size)


def _oid(data: bytes) -> str:
    numbers: list[int] = []
    value = 0
    for byte in data:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    first = min(numbers[0] // 40, 2) if numbers else 0
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]])) if numbers else ""


class PrincipalRules:
    """`ssl.principal.mapping.rules`: the first rule whose pattern is the whole subject makes the user's name."""

    def __init__(self, text: str) -> None:
        self._rules: list[tuple[re.Pattern[str] | None, str, str]] = []
        at, text = 0, text.strip() or "DEFAULT"
        while at < len(text):
            found = _RULE.match(text, at)
            if found is None:
                raise UserError(
                    f"Bad value for ssl.principal.mapping.rules: {text}",
                    f"what begins at character {at} is no rule",
                    "Write RULE:^CN=(.*?),.*$/$1/L with commas between rules, or DEFAULT",
                )
            at = found.end()
            self._rules.append(self._compile(found))

    @staticmethod
    def _compile(found: "re.Match[str]") -> tuple[re.Pattern[str] | None, str, str]:
        if found[1]:
            return None, "", ""
        try:
            pattern = re.compile(found[2].replace("\\/", "/"))
        except re.error as problem:
            raise UserError(f"Bad value for ssl.principal.mapping.rules: {found[2]}", str(problem)) from None
        replacement = re.sub(r"\$(\d)", r"\\g<\1>", found[3].replace("\\/", "/"))
        return pattern, replacement, found[4]

    def user_of(self, subject: str) -> str | None:
        """None: no rule fits, and Kafka refuses such a client."""
        for pattern, replacement, case in self._rules:
            if pattern is None:
                return subject
            found = pattern.fullmatch(subject)
            if found is not None:
                name = found.expand(replacement)
                return name.lower() if case == "L" else name.upper() if case == "U" else name
        return None
