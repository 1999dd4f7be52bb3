"""Spark's source and sink at a broker that demands TLS, a login and rights: SASL_SSL, SCRAM, access rules; ours, and
Spark's own connector for the JVM.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from compat.support.secured import CANARY, SecuredCluster, secured_cluster
from headwater.client import Producer
from headwater.client.admin.acls import AclBinding, AclOperation, AclResourceType, PatternType
from headwater.client.types import NewTopic
from headwater.demo import demo_run

ORDERS, RESULTS, OF_THE_JVM = "orders", "results", "of-the-jvm"
PREFIX = "copy"  # of transactions
TOPIC, ANY_GROUP, TRANSACTION = AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.TRANSACTIONAL_ID
PROBLEMS = (PySparkException, Py4JJavaError)  # of tasks, and of the driver
READ, WRITE, CREATE = AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE


def allow(
    user: str, kind: AclResourceType, name: str, operation: AclOperation, *, prefixed: bool = False
) -> AclBinding:
    pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    return AclBinding(kind, name, f"User:{user}", operation, pattern_type=pattern)


READER = [
    allow("alice", TOPIC, ORDERS, READ),
    allow("alice", ANY_GROUP, "headwater-spark-", READ, prefixed=True),
    allow("alice", ANY_GROUP, "spark-kafka-", READ, prefixed=True),  # of Spark's own connector
]
WRITER = [
    allow("alice", TOPIC, RESULTS, WRITE),
    allow("alice", TOPIC, OF_THE_JVM, WRITE),
    *(allow("alice", TOPIC, "_headwater.sink.", each, prefixed=True) for each in (READ, WRITE, CREATE)),
    allow("alice", ANY_GROUP, PREFIX, READ, prefixed=True),
    allow("alice", TRANSACTION, PREFIX, WRITE, prefixed=True),
]  # as docs/SPARK.md has them


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    with secured_cluster(tmp_path_factory.mktemp("secured"), [*READER, *WRITER]) as running:
        with running.admin() as admin:
            admin.create_topics([NewTopic(name, 2, 1) for name in (ORDERS, RESULTS, OF_THE_JVM)])
        with Producer({"bootstrap.servers": running.broker.bootstrap, **running.client("admin")}) as producer:
            for number in range(6):
                producer.send(ORDERS, b"%d" % number, partition=number % 2).result(60)
        yield running


def options(cluster: SecuredCluster, user: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": cluster.broker.bootstrap, **cluster.client(user, "kafka.")}


def read(spark: SparkSession, cluster: SecuredCluster, user: str, topic: str) -> DataFrame:
    return spark.read.format("headwater").options(**options(cluster, user)).option("subscribe", topic).load()


def values(frame: DataFrame) -> list[str]:
    return sorted(row.value for row in frame.selectExpr("cast(value as string) value").collect())


def copy(spark: SparkSession, cluster: SecuredCluster, user: str, checkpoint: Path) -> None:
    """From one topic to the other, exactly once."""
    query = demo_run.start(
        spark.readStream.format("headwater")
        .options(**options(cluster, user))
        .option("subscribe", ORDERS)
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr("key", "value")
        .writeStream.format("headwater")
        .options(**options(cluster, user))
        .option("topic", RESULTS)
        .option("transactionalIdPrefix", PREFIX)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
    )
    assert query.awaitTermination(300)


def test_a_stream_from_topic_to_topic_by_a_user_with_its_rights(
    spark: SparkSession, cluster: SecuredCluster, tmp_path: Path
) -> None:
    frame = read(spark, cluster, "alice", ORDERS)
    assert values(frame) == [str(number) for number in range(6)]
    plan = frame._jdf.queryExecution().toString()
    assert CANARY not in plan, "a password in the plan, which Spark's UI shows"
    copy(spark, cluster, "alice", tmp_path / "checkpoint")
    assert values(read(spark, cluster, "admin", RESULTS)) == [str(number) for number in range(6)]


def test_who_has_no_rights_or_the_wrong_password_is_told_so(spark: SparkSession, cluster: SecuredCluster) -> None:
    with pytest.raises(PySparkException, match=r"TOPIC_AUTHORIZATION_FAILED|[Nn]ot authorized") as refused:
        read(spark, cluster, "carol", ORDERS).collect()
    assert CANARY not in str(refused.value)
    wrong = {**options(cluster, "alice")}
    wrong["kafka.sasl.jaas.config"] = wrong["kafka.sasl.jaas.config"].replace(CANARY, "wrong")
    frame = spark.read.format("headwater").options(**wrong).option("subscribe", ORDERS)
    with pytest.raises(PySparkException, match=r"SASL_AUTHENTICATION_FAILED|Authentication failed"):
        frame.load().collect()


def test_sparks_own_connector_reads_and_writes_by_the_same_login(
    spark: SparkSession, cluster: SecuredCluster, tmp_path: Path
) -> None:
    if "spark-sql-kafka" not in spark.conf.get("spark.jars", ""):
        pytest.skip("the jars of tests/spark/connector are not there (tests/tools.sh gets them)")
    login = {**options(cluster, "alice"), "kafka.ssl.truststore.type": "PEM"}
    frame = spark.read.format("kafka").options(**login).option("subscribe", ORDERS).load()
    assert values(frame) == [str(number) for number in range(6)]
    written = frame.selectExpr("concat('jvm ', cast(value as string)) value").write.format("kafka").options(**login)
    written.option("topic", OF_THE_JVM).save()
    assert values(read(spark, cluster, "admin", OF_THE_JVM)) == [f"jvm {number}" for number in range(6)]
    with pytest.raises(PROBLEMS, match="TopicAuthorizationException"):
        spark.read.format("kafka").options(**login).option("subscribe", OF_THE_JVM).load().collect()
    wrong = {**login, "kafka.sasl.jaas.config": login["kafka.sasl.jaas.config"].replace(CANARY, "wrong")}
    with pytest.raises(PROBLEMS, match="SaslAuthenticationException") as told:
        spark.read.format("kafka").options(**wrong).option("subscribe", ORDERS).load().collect()
    assert CANARY not in str(told.value)
