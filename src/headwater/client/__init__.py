"""Speaking to a cluster from the outside: producers, consumers, admin clients, and what they stand on.

Works against any broker that speaks the Kafka protocol. Stands on `wire` and `records` only, never on the broker wing.
The names below load when they are first used, so that a command that needs one of them does not wait for all.
"""

from typing import TYPE_CHECKING

from headwater.base.lazy import lazy_names

if TYPE_CHECKING:
    from headwater.base.errors import ErrorCode as ErrorCode
    from headwater.base.errors import KafkaError as KafkaError
    from headwater.base.errors import UserError as UserError
    from headwater.base.ids import TopicPartition as TopicPartition
    from headwater.client.admin import Admin as Admin
    from headwater.client.admin import AsyncAdmin as AsyncAdmin
    from headwater.client.consumer.aio import AsyncConsumer as AsyncConsumer
    from headwater.client.consumer.arguments import RebalanceListener as RebalanceListener
    from headwater.client.consumer.arrow import Avro as Avro
    from headwater.client.consumer.arrow import Json as Json
    from headwater.client.consumer.assignors.spec import Assignor as Assignor
    from headwater.client.consumer.assignors.spec import MemberSubscription as MemberSubscription
    from headwater.client.consumer.consumer import Consumer as Consumer
    from headwater.client.consumer.core import GroupMetadata as GroupMetadata
    from headwater.client.consumer.errors import CommitFailed as CommitFailed
    from headwater.client.consumer.errors import LogTruncationError as LogTruncationError
    from headwater.client.consumer.errors import NoOffsetForPartition as NoOffsetForPartition
    from headwater.client.consumer.errors import OffsetOutOfRange as OffsetOutOfRange
    from headwater.client.consumer.errors import RecordDeserializationError as RecordDeserializationError
    from headwater.client.consumer.errors import WakeupError as WakeupError
    from headwater.client.consumer.membership.port import Departure as Departure
    from headwater.client.consumer.positions import OffsetAndMetadata as OffsetAndMetadata
    from headwater.client.consumer.ranges import RangeReader as RangeReader
    from headwater.client.consumer.record import ConsumerRecord as ConsumerRecord
    from headwater.client.consumer.record import TimestampType as TimestampType
    from headwater.client.consumer.subscription import SubscriptionPattern as SubscriptionPattern
    from headwater.client.outcomes import all_or_raise as all_or_raise
    from headwater.client.outcomes import only as only
    from headwater.client.producer.aio import AsyncProducer as AsyncProducer
    from headwater.client.producer.arrow import TableDelivery as TableDelivery
    from headwater.client.producer.arrow import TableMetadata as TableMetadata
    from headwater.client.producer.batch import Delivery as Delivery
    from headwater.client.producer.encoding import AvroEncoding as AvroEncoding
    from headwater.client.producer.ending import TransactionEnder as TransactionEnder
    from headwater.client.producer.producer import Producer as Producer
    from headwater.client.producer.transaction_manager import OpenTransaction as OpenTransaction
    from headwater.client.producer.types import BufferFull as BufferFull
    from headwater.client.producer.types import DeliveryTimedOut as DeliveryTimedOut
    from headwater.client.producer.types import ProducerFenced as ProducerFenced
    from headwater.client.producer.types import ProducerRecord as ProducerRecord
    from headwater.client.producer.types import RecordMetadata as RecordMetadata
    from headwater.client.producer.types import TransactionFailed as TransactionFailed
    from headwater.client.schema_registry import AvroColumns as AvroColumns
    from headwater.client.schema_registry import AvroColumnSerializer as AvroColumnSerializer
    from headwater.client.schema_registry import AvroDeserializer as AvroDeserializer
    from headwater.client.schema_registry import AvroSerializer as AvroSerializer
    from headwater.client.schema_registry import JsonSchemaDeserializer as JsonSchemaDeserializer
    from headwater.client.schema_registry import JsonSchemaSerializer as JsonSchemaSerializer
    from headwater.client.schema_registry import ProtobufColumns as ProtobufColumns
    from headwater.client.schema_registry import ProtobufColumnSerializer as ProtobufColumnSerializer
    from headwater.client.schema_registry import ProtobufDeserializer as ProtobufDeserializer
    from headwater.client.schema_registry import ProtobufSerializer as ProtobufSerializer
    from headwater.client.schema_registry import SchemaRegistryClient as SchemaRegistryClient
    from headwater.client.schema_registry import SchemaRegistryError as SchemaRegistryError
    from headwater.client.topic_frame import read as read
    from headwater.client.types import EARLIEST as EARLIEST
    from headwater.client.types import LATEST as LATEST
    from headwater.client.types import MAX_TIMESTAMP as MAX_TIMESTAMP
    from headwater.client.types import READ_COMMITTED as READ_COMMITTED
    from headwater.client.types import READ_UNCOMMITTED as READ_UNCOMMITTED
    from headwater.client.types import ConfigResource as ConfigResource
    from headwater.client.types import NewTopic as NewTopic
    from headwater.client.types import ResourceType as ResourceType

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "headwater.base.errors": (
            "ErrorCode",
            "KafkaError",
            "UserError",
        ),
        "headwater.base.ids": ("TopicPartition",),
        "headwater.client.admin": (
            "Admin",
            "AsyncAdmin",
        ),
        "headwater.client.consumer.aio": ("AsyncConsumer",),
        "headwater.client.consumer.arguments": ("RebalanceListener",),
        "headwater.client.consumer.arrow": (
            "Avro",
            "Json",
        ),
        "headwater.client.consumer.assignors.spec": (
            "Assignor",
            "MemberSubscription",
        ),
        "headwater.client.consumer.consumer": ("Consumer",),
        "headwater.client.consumer.core": ("GroupMetadata",),
        "headwater.client.consumer.errors": (
            "CommitFailed",
            "LogTruncationError",
            "NoOffsetForPartition",
            "OffsetOutOfRange",
            "RecordDeserializationError",
            "WakeupError",
        ),
        "headwater.client.consumer.membership.port": ("Departure",),
        "headwater.client.consumer.positions": ("OffsetAndMetadata",),
        "headwater.client.consumer.ranges": ("RangeReader",),
        "headwater.client.consumer.record": (
            "ConsumerRecord",
            "TimestampType",
        ),
        "headwater.client.consumer.subscription": ("SubscriptionPattern",),
        "headwater.client.outcomes": (
            "all_or_raise",
            "only",
        ),
        "headwater.client.producer.aio": ("AsyncProducer",),
        "headwater.client.producer.arrow": (
            "TableDelivery",
            "TableMetadata",
        ),
        "headwater.client.producer.batch": ("Delivery",),
        "headwater.client.producer.encoding": ("AvroEncoding",),
        "headwater.client.producer.ending": ("TransactionEnder",),
        "headwater.client.producer.producer": ("Producer",),
        "headwater.client.producer.transaction_manager": ("OpenTransaction",),
        "headwater.client.producer.types": (
            "BufferFull",
            "DeliveryTimedOut",
            "ProducerFenced",
            "ProducerRecord",
            "RecordMetadata",
            "TransactionFailed",
        ),
        "headwater.client.topic_frame": ("read",),
        "headwater.client.schema_registry": (
            "AvroColumnSerializer",
            "AvroColumns",
            "AvroDeserializer",
            "AvroSerializer",
            "JsonSchemaDeserializer",
            "JsonSchemaSerializer",
            "ProtobufColumnSerializer",
            "ProtobufColumns",
            "ProtobufDeserializer",
            "ProtobufSerializer",
            "SchemaRegistryClient",
            "SchemaRegistryError",
        ),
        "headwater.client.types": (
            "EARLIEST",
            "LATEST",
            "MAX_TIMESTAMP",
            "READ_COMMITTED",
            "READ_UNCOMMITTED",
            "ConfigResource",
            "NewTopic",
            "ResourceType",
        ),
    },
)
