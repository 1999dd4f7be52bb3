"""Where settings hold: a subject, a context, the default one, every one."""

import pytest

from headwater.registry.decisions import deleting, settings
from headwater.registry.decisions.steps import Rules
from unit.registry.twin import Twin, code


@pytest.mark.parametrize("scope", [None, ":.__GLOBAL:", ":.c:", ":.c:s"])
def test_an_import_into_everything_or_a_context_finds_subjects_there_and_clears_them(scope: str | None) -> None:
    """Into `:.__GLOBAL:`, which is every context, it found none; without a subject, nobody was told to clear."""
    twin = Twin()
    twin.register(":.c:s", '"int"')
    assert code(settings.set_mode, twin.state, Rules(), scope, {"mode": "IMPORT"}, force=False) == 42205
    twin.write(deleting.delete_subject(twin.state, ":.c:s", permanent=False))
    twin.write(settings.set_mode(twin.state, Rules(), scope, {"mode": "IMPORT"}, force=False))
    assert not twin.state.subjects
    name = f'"subject":"{scope}"' if scope else ""
    clearing = f'{{"keytype":"CLEAR_SUBJECT",{name + "," if name else ""}"magic":0}}'
    assert twin.log[-2] == (clearing.encode(), f"{{{name}}}".encode())


def test_settings_for_all_are_those_of_the_default_context() -> None:
    """They held in every context that had none of its own: a schema was refused by a level that was not its own's."""
    twin = Twin(Rules(compatibility="BACKWARD"))
    state, rules = twin.state, twin.registry.rules
    twin.write(settings.set_config(state, None, {"compatibility": "NONE"}))
    twin.write(settings.set_mode(state, rules, None, {"mode": "READONLY"}, force=False))

    def levels() -> list[tuple[str, str]]:
        return [
            (
                settings.config(state, rules, each, default_to_global=True)["compatibilityLevel"],
                settings.mode(state, each, default_to_global=True)["mode"],
            )
            for each in ("s", ":.c:s", ":.c:")
        ]

    assert levels() == [("NONE", "READONLY"), ("BACKWARD", "READWRITE"), ("BACKWARD", "READWRITE")]
    assert twin.register(":.c:s", '"int"')["id"] == 1
    assert code(twin.register, ":.c:s", '"string"') == 40901
    twin.write(settings.set_config(state, ":.__GLOBAL:", {"compatibility": "FULL"}))
    twin.write(settings.set_mode(state, rules, ":.__GLOBAL:", {"mode": "IMPORT"}, force=True))
    assert levels() == [("NONE", "READONLY"), ("FULL", "IMPORT"), ("FULL", "IMPORT")]


def test_what_is_set_in_the_default_context_and_for_every_context_is_told_apart() -> None:
    twin = Twin(Rules(compatibility="BACKWARD"))
    state, rules = twin.state, twin.registry.rules
    for each in (None, ":.__GLOBAL:"):
        assert settings.config(state, rules, each, default_to_global=False) == {"compatibilityLevel": "BACKWARD"}
        assert settings.mode(state, each, default_to_global=False) == {"mode": "READWRITE"}
    twin.write(settings.set_config(state, ":.__GLOBAL:", {"compatibility": "FULL"}))
    twin.write(settings.set_mode(state, rules, ":.__GLOBAL:", {"mode": "READONLY"}, force=False))
    assert settings.config(state, rules, None, default_to_global=False) == {"compatibilityLevel": "BACKWARD"}
    assert settings.config(state, rules, None, default_to_global=True) == {"compatibilityLevel": "FULL"}
    assert settings.mode(state, None, default_to_global=False) == {"mode": "READWRITE"}
    assert settings.mode(state, None, default_to_global=True) == {"mode": "READONLY"}
