"""Configs: checks property by property, config providers, secrets, the catalog."""

from pathlib import Path

import pytest

from headwater.base.errors import UserError
from headwater.connect.config.providers import Providers
from headwater.connect.config.secrets import kept, redacted, secrets_in, shown
from headwater.connect.config.worker import WorkerConfig, refused_overrides
from headwater.connect.connector_config.client_overrides import check_logins, checked_overrides
from headwater.connect.connector_config.common import connector_def
from headwater.connect.connector_config.validation import validate
from headwater.connect.converters.basic import StringConverter
from headwater.connect.data.record import SourceRecord
from headwater.connect.errors import ConfigError, ConnectError
from headwater.connect.plugins import Catalog, Kind
from headwater.connect.runtime.pipeline import Pipeline
from headwater.connect.standalone import connector_file

CATALOG = Catalog(installed=False)
SINK = {"name": "s", "connector.class": "FileStreamSink", "topics": "t"}
SOURCE = {"name": "s", "connector.class": "FileStreamSource", "topic": "t"}


def errors(config: dict[str, str]) -> dict[str, list[str]]:
    return {name: each.errors for name, each in validate(CATALOG, config).values.items() if each.errors}


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({**SINK, "connector.class": "CassandraSink"}, "port"),
        ({"name": "s", "connector.class": "PostgresCdc", "topic.prefix": "p"}, "database.port"),
    ],
)
@pytest.mark.parametrize(("port", "wrong"), [("0", 1), ("1", 0), ("65535", 0), ("65536", 1), ("99999999", 1)])
def test_a_port_is_one_that_there_can_be(config: dict[str, str], name: str, port: str, wrong: int) -> None:
    assert len(validate(CATALOG, {**config, name: port}).values[name].errors) == wrong


def test_a_good_config_has_no_errors() -> None:
    assert errors(SINK) == {}
    assert errors(SOURCE) == {}


@pytest.mark.parametrize(
    ("config", "wrong"),
    [
        ({**SOURCE, "tasks.max": "x"}, "tasks.max"),
        ({**SOURCE, "tasks.max": "0"}, "tasks.max"),
        ({**SOURCE, "name": ""}, "name"),
        ({**SOURCE, "value.converter": "Nope"}, "value.converter"),
        ({**SOURCE, "value.converter": "JsonConverter", "value.converter.schemas.enable": "maybe"}, "value.converter.schemas.enable"),
        ({**SOURCE, "errors.tolerance": "some"}, "errors.tolerance"),
        ({**SOURCE, "transforms": "a"}, "transforms.a.type"),
        ({**SOURCE, "transforms": "a", "transforms.a.type": "RegexRouter"}, "transforms.a.regex"),
        ({**SOURCE, "transforms": "a", "transforms.a.type": "RegexRouter", "transforms.a.regex": "(", "transforms.a.replacement": "x"}, "transforms.a.regex"),
        ({**SOURCE, "transforms": "a", "transforms.a.type": "InsertField$Value"}, "transforms.a.type"),
        ({**SOURCE, "transforms": "a", "transforms.a.type": "Filter", "transforms.a.predicate": "p"}, "transforms.a.predicate"),
        ({**SOURCE, "exactly.once.support": "required"}, "exactly.once.support"),
        ({**SOURCE, "offsets.storage.topic": "o"}, "offsets.storage.topic"),
        ({**SOURCE, "connector.plugin.version": "99"}, "connector.plugin.version"),
        ({**SINK, "topics": ""}, "topics"),
        ({**SINK, "topics.regex": "a.*"}, "topics.regex"),
        ({**SINK, "errors.deadletterqueue.topic.name": "t"}, "errors.deadletterqueue.topic.name"),
        ({**SINK, "topics": "", "topics.regex": "t.*", "errors.deadletterqueue.topic.name": "t.dead"}, "errors.deadletterqueue.topic.name"),
        ({**SOURCE, "name": "a\x85b"}, "name"),
        ({**SOURCE, "offsets.storage.topic": ""}, "offsets.storage.topic"),
        ({**SOURCE, "transforms": "a,b,a", "transforms.a.type": "Filter", "transforms.b.type": "Filter"}, "transforms"),
        ({**SOURCE, "predicates": "p,p", "predicates.p.type": "RecordIsTombstone"}, "predicates"),
        ({"name": "d", "connector.class": "Datagen", "topic": "t"}, "quickstart"),
        ({"name": "d", "connector.class": "Datagen", "topic": "t", "template": '{"a": {"type": "x"}}'}, "template"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_at_its_property(config: dict[str, str], wrong: str) -> None:
    assert wrong in errors(config)


def test_dead_letters_that_the_sink_does_not_read_are_right() -> None:
    dead = {"errors.deadletterqueue.topic.name": "dead.t"}
    assert errors({**SINK, **dead}) == errors({**SINK, "topics": "", "topics.regex": "t.*", **dead}) == {}
    assert list(errors({**SINK, "topics": "", "topics.regex": "(", **dead})) == ["topics.regex"]


def test_a_regular_expression_that_could_run_for_ever_is_run_by_re2() -> None:
    assert errors({**SINK, "topics": "", "topics.regex": "(a+)+$"}) == {}
    assert "look-around" in errors({**SINK, "topics": "", "topics.regex": "(?=a)b"})["topics.regex"][0]


@pytest.mark.parametrize(
    "name", ["FileStreamSource", "FileStreamSourceConnector", "org.apache.kafka.connect.file.FileStreamSourceConnector"]
)
def test_a_class_has_java_s_name_and_short_ones(name: str) -> None:
    assert CATALOG.connector(name).kind is Kind.SOURCE


def test_all_of_the_stock_transforms_and_predicates_are_there() -> None:
    names = {each.name.partition("$")[0] for each in CATALOG.plugins(Kind.TRANSFORMATION)}
    assert len([each for each in names if each.startswith("org.apache.kafka.connect.transforms.")]) == 16
    assert len(CATALOG.plugins(Kind.PREDICATE)) == 3
    assert CATALOG.find("Cast$Key", Kind.TRANSFORMATION).part == "key"


def test_a_class_that_is_not_in_the_catalog_is_not_imported() -> None:
    with pytest.raises(ConnectError, match="Failed to find any class"):
        CATALOG.connector("os.system")


@pytest.mark.parametrize(
    ("template", "told"),
    [
        ("x", "it is not JSON: "),
        ("[]", "it is not a JSON object of fields"),
        ('{"a": "int"}', "the field 'a': it is not an object with a type"),
        ('{"a": {"type": "text"}}', "the field 'a': the type 'text' is not one of sequence, int, "),
        ('{"a": {"type": "int", "min": NaN}}', "the field 'a': min and max are numbers"),
        ('{"a": {"type": "double", "max": Infinity}}', "the field 'a': min and max are numbers"),
        ('{"a": {"type": "sequence", "start": "x"}}', "the field 'a': start is a whole number"),
    ],
)
def test_what_is_wrong_with_a_template_is_told_in_words(template: str, told: str) -> None:
    """It was "'str' object has no attribute 'get'"."""
    config = {"name": "d", "connector.class": "Datagen", "topic": "t", "template": template}
    (error,) = validate(Catalog(installed=False), config).errors
    assert f"configuration template: {told}" in error


def test_a_key_that_is_no_field_of_the_template_is_refused() -> None:
    """Records came without keys."""
    config = {"name": "d", "connector.class": "Datagen", "topic": "t", "quickstart": "users", "key.field": "id"}
    (error,) = validate(Catalog(installed=False), config).errors
    assert error == "key.field: there is no field 'id'; there are userid, regionid, gender, registertime"


def test_the_allow_list_takes_connectors_out_of_the_catalog() -> None:
    narrow = Catalog(["Datagen"], installed=False)
    assert [each.cls.__name__ for each in narrow.plugins(Kind.SOURCE, Kind.SINK)] == ["DatagenConnector"]
    with pytest.raises(ConnectError):
        narrow.connector("FileStreamSink")


# Providers


def providers(tmp_path: Path, environment: dict[str, str] | None = None) -> Providers:
    worker = {
        "config.providers": "file,dir,env",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        "config.providers.file.param.allowed.paths": str(tmp_path / "allowed"),
        "config.providers.dir.class": "DirectoryConfigProvider",
        "config.providers.dir.param.allowed.paths": str(tmp_path / "allowed"),
        "config.providers.env.class": "EnvVarConfigProvider",
        "config.providers.env.param.allowlist.pattern": "CONNECT_.*",
    }
    (tmp_path / "allowed").mkdir(exist_ok=True)
    return Providers(worker, environment or {})


def test_references_stand_for_values_elsewhere(tmp_path: Path) -> None:
    found = providers(tmp_path, {"CONNECT_USER": "me"})
    (tmp_path / "allowed" / "db.properties").write_text("password=s3cret\n")
    (tmp_path / "allowed" / "token").write_text("t0ken")
    resolved = found.resolved(
        {
            "a": f"x-${{file:{tmp_path}/allowed/db.properties:password}}-y",
            "b": f"${{dir:{tmp_path}/allowed:token}}",
            "c": "${env:CONNECT_USER}",
            "d": "${nobody:x}",
        }
    )
    assert resolved == {"a": "x-s3cret-y", "b": "t0ken", "c": "me", "d": "${nobody:x}"}


def test_a_provider_reaches_nothing_but_what_is_allowed(tmp_path: Path) -> None:
    found = providers(tmp_path, {"HOME": "/root"})
    (tmp_path / "outside.properties").write_text("k=v\n")
    (tmp_path / "allowed" / "link").symlink_to(tmp_path / "outside.properties")
    for reference in (
        f"${{file:{tmp_path}/outside.properties:k}}",
        f"${{file:{tmp_path}/allowed/../outside.properties:k}}",
        f"${{file:{tmp_path}/allowed/link:k}}",
        f"${{dir:{tmp_path}/allowed:../outside.properties}}",
        f"${{dir:{tmp_path}:outside.properties}}",
        "${env:HOME}",
    ):
        with pytest.raises(ConfigError, match="password: "):
            found.resolved({"password": reference})


@pytest.mark.parametrize("name", ["FileConfigProvider", "DirectoryConfigProvider", "EnvVarConfigProvider", "os.path"])
def test_a_provider_without_limits_is_refused(name: str) -> None:
    with pytest.raises(UserError, match="config provider"):
        Providers({"config.providers": "p", "config.providers.p.class": name})


# Secrets


def test_secrets_are_hidden_by_type_and_by_name() -> None:
    config = {
        "connection.password": "a",
        "producer.override.sasl.jaas.config": "b",
        "topic": "c",
        "db.password": "${file:/x:y}",
    }
    assert shown(config) == {
        "connection.password": "[hidden]",
        "producer.override.sasl.jaas.config": "[hidden]",
        "topic": "c",
        "db.password": "${file:/x:y}",
    }
    assert kept({"connection.password": "[hidden]", "topic": "d"}, config) == {"connection.password": "a", "topic": "d"}


def test_errors_do_not_tell_them() -> None:
    assert redacted("cannot log in with hunter2", {"hunter2"}) == "cannot log in with [hidden]"


def test_overrides_of_clients_follow_the_policy() -> None:
    override = {"acks": "1", "sasl.mechanism": "PLAIN"}
    long_name = "org.apache.kafka.connect.connector.policy.PrincipalConnectorClientConfigOverridePolicy"
    assert refused_overrides("All", override, ()) == []
    assert refused_overrides("Principal", override, ()) == refused_overrides(long_name, override, ()) == ["acks"]
    assert refused_overrides("None", override, ("acks",)) == ["acks", "sasl.mechanism"]
    assert refused_overrides("Allowlist", override, ("acks", "linger.ms")) == ["sasl.mechanism"]


@pytest.mark.parametrize(
    ("policy", "name", "value", "told"),
    [
        ("All", "producer.override.linger.ms", "5", None),
        ("All", "producer.override.linger.ms", "five", "The setting 'linger.ms' cannot be 'five'"),
        ("All", "consumer.override.max.pol.records", "5", "did you mean 'max.poll.records'?"),
        ("All", "admin.override.retries", "7", None),
        ("Principal", "producer.override.linger.ms", "5", "The 'Principal' policy does not allow 'linger.ms' to be"),
        ("Principal", "producer.override.sasl.jaas.config", "x", None),
        ("Allowlist", "producer.override.acks", "1", None),
        ("Allowlist", "consumer.override.group.id", "g", "The 'Allowlist' policy does not allow 'group.id' to be"),
    ],
)
def test_an_override_that_is_wrong_is_told_at_its_name(policy: str, name: str, value: str, told: str | None) -> None:
    """The connector was made, and then failed."""
    (found,) = checked_overrides(policy, ("acks",), {name: value, "topic": "t"}).values()
    assert found.key.name == name
    assert [told in each for each in found.errors if told is not None] == ([] if told is None else [True])
    assert bool(found.errors) == (told is not None)


_PLAIN_JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'
_WORKER_LOGIN = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": _PLAIN_JAAS}


@pytest.mark.parametrize(
    ("worker", "override", "told"),
    [
        ({}, {"sasl.jaas.config": _PLAIN_JAAS}, {"sasl.jaas.config": "no login where security.protocol is PLAINTEXT"}),
        (
            {},
            {"security.protocol": "SSL", "sasl.username": "u", "sasl.mechanisms": "PLAIN"},
            dict.fromkeys(("sasl.username", "sasl.mechanisms"), "no login where security.protocol is SSL"),
        ),
        ({}, {"security.protocol": "SASL_SSL"}, {"security.protocol": "sasl.mechanism: GSSAPI"}),
        (
            {},
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"},
            {"sasl.mechanism": "A login by PLAIN needs a user and a password"},
        ),
        (
            _WORKER_LOGIN,
            {"sasl.mechanism": "SCRAM-SHA-256"},
            {"sasl.mechanism": "sasl.jaas.config does not fit the mechanism SCRAM-SHA-256"},
        ),
        (
            _WORKER_LOGIN,
            {"security.protocol": "PLAINTEXT"},
            {"security.protocol": "and the worker has sasl.jaas.config"},
        ),
        (_WORKER_LOGIN, {"sasl.jaas.config": _PLAIN_JAAS.replace("u", "v")}, {"sasl.jaas.config": "login module"}),
        (_WORKER_LOGIN, {"sasl.jaas.config": _PLAIN_JAAS}, {}),
        ({}, {**_WORKER_LOGIN}, {}),
        ({}, {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, {}),
        ({"security.protocol": "SASL_SSL"}, {"max.poll.records": "5"}, {}),  # what is wrong is the worker's
        ({"nonsense": "1"}, {"sasl.jaas.config": _PLAIN_JAAS}, {}),
        ({}, {"sasl.jaas.config": _PLAIN_JAAS, "max.poll.records": "five"}, {"max.poll.records": "cannot be 'five'"}),
    ],
)
def test_overrides_of_which_no_login_can_come_are_told_at_their_names(
    worker: dict[str, str], override: dict[str, str], told: dict[str, str]
) -> None:
    """Only the status of the task told it."""
    prefix = "consumer.override."
    found = checked_overrides("All", (), {prefix + name: value for name, value in override.items()})
    check_logins(found, lambda client: {"bootstrap.servers": "x:1", **worker, **(override if client == "consumer" else {})})  # fmt: skip
    wrong = {name.removeprefix(prefix): each.errors for name, each in found.items() if each.errors}
    assert wrong.keys() == told.keys()
    for name, (sentence,) in wrong.items():
        assert told[name] in sentence
        assert sentence.startswith(f"{prefix}{name}: ")


def test_a_worker_without_converters_is_told() -> None:
    with pytest.raises(UserError, match=r"key\.converter"):
        WorkerConfig({"bootstrap.servers": "x:1"})


# Connectors' files


@pytest.mark.parametrize(
    "text",
    [
        "name=c\nconnector.class=X\n",
        '{"name": "c", "connector.class": "X"}',
        '{"name": "c", "config": {"connector.class": "X"}}',
    ],
)
def test_a_connector_s_file_is_properties_or_json(tmp_path: Path, text: str) -> None:
    path = tmp_path / "c"
    path.write_text(text)
    found = connector_file(str(path))
    assert (found.name, found.config["connector.class"]) == ("c", "X")


def test_a_file_without_a_name_is_told(tmp_path: Path) -> None:
    path = tmp_path / "c"
    path.write_text("topic=x\n")
    with pytest.raises(UserError, match="names no connector"):
        connector_file(str(path))


def test_what_a_registry_is_entered_with_is_hidden() -> None:
    config = {
        "value.converter.basic.auth.user.info": "ada:pass",
        "value.converter.basic.auth.credentials.source": "USER_INFO",
        "value.converter.bearer.auth.token": "abc",
        "value.converter.schema.registry.url": "http://ada:pass@host:8081,http://ada:word@other",
        "key.converter.schema.registry.url": "http://host:8081",
    }
    hidden = {name for name, value in shown(config).items() if value == "[hidden]"}
    assert hidden == set(config) - {
        "value.converter.basic.auth.credentials.source",
        "key.converter.schema.registry.url",
    }
    assert secrets_in(config, config) >= {"pass", "word", "ada:pass", "abc"}


@pytest.mark.parametrize(
    "url",
    [
        "jdbc:postgresql://h/db?user=u&password=geheim",
        "jdbc:sqlserver://h;user=u;pwd=geheim",
        "https://h/x?apiKey=geheim&b=1",
        "mongodb://h/?authMechanism=MONGODB-AWS&authMechanismProperties=geheim&w=1",
    ],
)
def test_a_password_in_the_query_of_an_address_is_hidden(url: str) -> None:
    config = {"options.url": url, "options.dbtable": "t"}
    assert shown(config) == {"options.url": "[hidden]", "options.dbtable": "t"}
    assert "geheim" in secrets_in(config, config)
    assert "geheim" not in redacted(f"cannot reach {url}", secrets_in(config, config))
    assert shown({"options.url": "jdbc:postgresql://h/db?ssl=true"})["options.url"] != "[hidden]"


def test_the_answer_of_a_check_shows_no_password_of_an_address() -> None:
    config = {
        **SOURCE,
        "value.converter": "AvroConverter",
        "value.converter.schema.registry.url": "http://ada:geheim@host:8081",
        "value.converter.bearer.auth.token": "geheim",
        "file": "/tmp/x?password=geheim",
        "tasks.max": "http://ada:geheim@host",
    }
    answer = validate(CATALOG, config).answer()
    assert "geheim" not in repr(answer)
    values = {each["value"]["name"]: each["value"]["value"] for each in answer["configs"]}
    assert values["value.converter.schema.registry.url"] == "[hidden]"
    assert values["topic"] == "t"
    assert any("tasks.max" in error for each in answer["configs"] for error in each["value"]["errors"])


def test_a_connector_file_of_broken_json_is_not_taken_for_properties(tmp_path: Path) -> None:
    path = tmp_path / "connector.json"
    path.write_text(' {"name": "j", "config": {"connector.class": "FileStreamSource"}')
    with pytest.raises(UserError, match=r"connector\.json is no JSON\. .*delimiter: line 1"):
        connector_file(str(path))


BLANKS = {
    "transforms": "a", "transforms.a.type": "Filter ", "transforms.a.predicate": " p", "transforms.a.negate": "TRUE ",
    "predicates": "p", "predicates.p.type": " RecordIsTombstone", "key.converter": "StringConverter ",
}  # fmt: skip


def test_a_blank_behind_a_value_changes_nothing() -> None:
    """Properties files keep it. `negate` counted as false, all else was checked without it and failed the task."""
    config = {**SOURCE, **BLANKS}
    assert validate(CATALOG, config).errors == []
    parsed = connector_def(CATALOG, Kind.SOURCE).parse(config)
    worker = {"key.converter": "JsonConverter", "value.converter": " StringConverter"}
    pipeline = Pipeline(CATALOG, config, parsed, worker)
    assert (type(pipeline.key), type(pipeline.value)) == (StringConverter, StringConverter)
    assert [step.applies(SourceRecord(topic="t", value=value)) for step in pipeline.steps for value in (None, "v")] == [
        False,
        True,
    ]
    errors = validate(CATALOG, {**SOURCE, "exactly.once.support": "required "}).values["exactly.once.support"].errors
    assert errors == ["A standalone worker does not write exactly once: distributed ones do"]
