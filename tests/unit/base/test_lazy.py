"""Names that load when they are first used."""

import sys
from types import ModuleType

import pytest

from headwater.base.lazy import lazy_names


def test_a_name_loads_its_module_once_and_others_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    package, home = ModuleType("package"), ModuleType("package.home")
    home.thing = object()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "package", package)
    monkeypatch.setitem(sys.modules, "package.home", home)
    load, names = lazy_names("package", {"package.home": ("thing",), "package.absent": ("other",)})
    assert {"thing", "other"} <= set(names())
    assert "thing" not in vars(package)
    assert load("thing") is home.thing
    assert package.thing is home.thing  # the next use asks nobody
    with pytest.raises(AttributeError, match="module 'package' has no attribute 'missing'"):
        load("missing")
