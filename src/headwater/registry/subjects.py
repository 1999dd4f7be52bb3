"""Names of subjects, and the contexts that they live in. Pure.

`:.context:subject` is a subject in a context; a plain name is in the default one, whose own name is `.`. Ids are given
per context. A context stands for itself with an empty subject: `:.context:`.
"""

from typing import Final, NamedTuple

from headwater.registry import errors

DEFAULT_CONTEXT: Final = "."
GLOBAL_CONTEXT: Final = ".__GLOBAL"  # settings of all contexts
ALL_CONTEXTS: Final = "*"
SUBJECT_CHARACTERS_MAX: Final = 1000
_RESERVED: Final = ("__GLOBAL", "__EMPTY")  # Confluent's names for rights on everything, and for no subject


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
    if names_context(text):
        context, _, name = text[1:].partition(":")
        return Subject(context, name)
    return Subject(DEFAULT_CONTEXT, text)


def parse_context(text: str) -> str:
    """A context as a path names it: `.a`, `a` and `:.a:` are one. Raises HttpError."""
    name = text.removeprefix(":").removesuffix(":")
    if ":" in name:
        raise errors.invalid_context(text)
    return name if name.startswith(DEFAULT_CONTEXT) else DEFAULT_CONTEXT + name


def names_context(text: str) -> bool:
    """Whether a subject, or a prefix of some, says in which context it is."""
    return text.startswith((":.", f":{ALL_CONTEXTS}:"))


def normalized(text: str) -> str:
    return parse_subject(text).text


def beside(parent: str, reference: str) -> str:
    """The subject that a schema of `parent` means by `reference`: in its own context unless another is named."""
    if names_context(reference):
        return normalized(reference)
    return Subject(parse_subject(parent).context, reference).text


def is_within(subject: str, scope: str | None) -> bool:
    """Whether a subject is the one that a scope of settings names, or of its context. None is everything, and so is
    the context of settings for all.
    """
    if scope is None:
        return True
    context, name = parse_subject(scope)
    return subject == scope if name else context in (GLOBAL_CONTEXT, parse_subject(subject).context)


def is_valid(text: str, *, context_alone: bool = False) -> bool:
    """No control characters and no lone surrogates: a name is a key in the log, and in its lines. The context of
    settings for all has no subjects.
    """
    subject = parse_subject(text)
    if len(text) > SUBJECT_CHARACTERS_MAX or subject.context == ALL_CONTEXTS or subject.name in _RESERVED:
        return False
    if subject.context == GLOBAL_CONTEXT and not context_alone:
        return False
    if not subject.name and not (context_alone and text.startswith(":")):
        return False
    return not any(ord(each) < 32 or ord(each) == 127 or 0xD800 <= ord(each) <= 0xDFFF for each in text)


def matches_prefix(subject: str, prefix: str) -> bool:
    """Whether a listing by this prefix has the subject. Behind `:*:` it is one of the name, in every context; else one
    of the name with its context.
    """
    everywhere = f":{ALL_CONTEXTS}:"
    if prefix.startswith(everywhere):
        return parse_subject(subject).name.startswith(prefix.removeprefix(everywhere))
    own = f":{DEFAULT_CONTEXT}:"
    if prefix.startswith(own):
        return not names_context(subject) and subject.startswith(prefix.removeprefix(own))
    return subject.startswith(prefix)
