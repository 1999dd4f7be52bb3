"""The package's functions stay functions: a module of the same name would take their place once it is loaded."""

import importlib
import pkgutil

import headwater.spark
from headwater.spark import sinks


def test_no_module_has_the_name_of_a_function() -> None:
    for package in (headwater.spark, sinks):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
        assert all(callable(getattr(package, name)) for name in package.__all__)
