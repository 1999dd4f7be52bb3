"""`sasl.jaas.config`: what Java takes, and sentences that hold no password for what it does not."""

import pytest

from headwater.base.errors import UserError
from headwater.base.security.jaas import one_module, parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_users_and_the_brokers_own_login() -> None:
    module = one_module(
        f'{PLAIN} required\n  username="admin" password="ad;min=\\"1\\""\n user_admin="x" user_alice=bare;'
    )
    assert (module.name, module.short_name, module.flag) == (PLAIN, "PlainLoginModule", "required")
    assert module.options["password"] == 'ad;min="1"'
    assert module.users() == {"admin": "x", "alice": "bare"}


def test_several_modules_and_comments() -> None:
    text = f"// one\n{PLAIN} required a=1; /* two\n */ other.Module OPTIONAL ; # three"
    assert [(m.short_name, m.flag, m.options) for m in parse_jaas(text)] == [
        ("PlainLoginModule", "required", {"a": "1"}),
        ("Module", "optional", {}),
    ]
    with pytest.raises(UserError, match="2 login modules"):
        one_module(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        PLAIN,
        f"{PLAIN} needed;",
        f'{PLAIN} required password="hunter2"',
        f'{PLAIN} required password="hunter2;',
        f"{PLAIN} required password hunter2;",
        f"{PLAIN} required password=;",
        f'{PLAIN} required password="hunter2" password="hunter2";',
        f'"{PLAIN}" required;',
        "= required;",
        ";",
    ],
)
def test_what_cannot_be_read_is_told_without_a_value(text: str) -> None:
    with pytest.raises(UserError) as told:
        parse_jaas(text)
    assert "hunter2" not in str(told.value)


def test_a_module_does_not_show_its_passwords() -> None:
    assert "hunter2" not in repr(one_module(f'{PLAIN} required password="hunter2";'))
