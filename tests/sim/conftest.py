"""A broker among faults has much to report, and formatting it would be most of the run."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def only_errors_are_told() -> Iterator[None]:
    """For clusters: a world takes exceptions that were only written down for failures."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def nothing_is_told() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
