"""A client of MongoDB's by pymongo, and which of its errors are worth another try."""

from collections.abc import Mapping
from typing import Any

from headwater.connect.connectors.mongo.refusals import PASSING
from headwater.connect.errors import ConfigError, ConnectError, RetriableError


def driver() -> Any:
    try:
        import pymongo
        import pymongo.errors
    except ImportError:
        raise ConfigError("MongoDB's connectors need the package pymongo: pip install 'headwater[mongodb]'") from None
    return pymongo


def check_uri(uri: str) -> None:
    """Raises ConfigError for an address that cannot be one; an option that the driver does not know is refused."""
    pymongo = driver()
    if uri.startswith("mongodb+srv://"):
        return  # its hosts are in the DNS
    from pymongo.uri_parser import parse_uri

    try:
        parse_uri(uri, validate=True, warn=False)
    except (pymongo.errors.PyMongoError, ValueError, TypeError) as error:
        sentence = str(error).partition(" Did you mean")[0]
        raise ConfigError(f"connection.uri: {sentence}", name="connection.uri") from None


def client_of(config: Mapping[str, Any]) -> Any:
    """Connects when it is used first. What the address says counts."""
    pymongo = driver()
    given = config["connection.uri"]
    patience = {} if "serverselectiontimeoutms" in given.lower() else {"serverSelectionTimeoutMS": 10_000}
    try:
        return pymongo.MongoClient(given, connect=False, tz_aware=True, appname="headwater-connect", **patience)
    except (pymongo.errors.PyMongoError, ValueError) as error:
        raise ConnectError(f"connection.uri: {error}") from None


def told(error: Exception) -> ConnectError:
    """What a failed request means: worth another try, or the end of the task."""
    errors = driver().errors
    passing = isinstance(error, errors.OperationFailure) and (
        error.has_error_label("RetryableWriteError") or error.code in PASSING
    )
    lasting = isinstance(error, errors.OperationFailure) and not passing
    if lasting or isinstance(error, errors.ConfigurationError | errors.InvalidOperation):
        return ConnectError(f"MongoDB said: {error}")
    return RetriableError(f"MongoDB said: {error}")
