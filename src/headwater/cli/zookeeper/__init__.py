"""The commands that come with ZooKeeper, as Kafka ships them."""
