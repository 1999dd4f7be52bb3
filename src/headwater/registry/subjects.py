"""Names of subjects, and the contexts that they live in. Pure.

`:.context:subject` is a subject in a context; a plain name is in the default one, whose own name is `.`. Ids are given
per context. A context stands for itself with an empty subject: `:.context:`.
"""

from typing import Final, NamedTuple

DEFAULT_CONTEXT: Final = "."
GLOBAL_CONTEXT: Final = ".__GLOBAL"  # settings of all contexts
ALL_CONTEXTS: Final = "*"
SUBJECT_CHARACTERS_MAX: Final = 1000


class Subject(NamedTuple):
    context: str
    name: str

    @property
    def text(self) -> str:
        """As it is stored: the default context is not written."""
        return self.name if self.context == DEFAULT_CONTEXT else f":{self.context}:{self.name}"

    @property
    def context_text(self) -> str | None:
        """The name under which settings of its context are kept; those of the default context have none."""
        return None if self.context == DEFAULT_CONTEXT else f":{self.context}:"


def parse_subject(text: str) -> Subject:
    if text.startswith((":.", f":{ALL_CONTEXTS}:")):
        context, _, name = text[1:].partition(":")
        return Subject(context, name)
    return Subject(DEFAULT_CONTEXT, text)


def normalized(text: str) -> str:
    return parse_subject(text).text


def beside(parent: str, reference: str) -> str:
    """The subject that a schema of `parent` means by `reference`: in its own context unless another is named."""
    if reference.startswith((":.", ":*:")):
        return normalized(reference)
    return Subject(parse_subject(parent).context, reference).text


def is_valid(text: str, *, context_alone: bool = False) -> bool:
    """No control characters and no lone surrogates: a name is a key in the log, and in its lines."""
    subject = parse_subject(text)
    if len(text) > SUBJECT_CHARACTERS_MAX or subject.context == ALL_CONTEXTS:
        return False
    if not subject.name and not (context_alone and text.startswith(":")):
        return False
    return not any(ord(each) < 32 or ord(each) == 127 or 0xD800 <= ord(each) <= 0xDFFF for each in text)


def matches_prefix(subject: str, prefix: str) -> bool:
    """Whether a listing by this prefix has the subject. `:*:` is every context; no prefix is the default one."""
    wanted, found = parse_subject(prefix), parse_subject(subject)
    return (wanted.context == ALL_CONTEXTS or wanted.context == found.context) and found.name.startswith(wanted.name)
