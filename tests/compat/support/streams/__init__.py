"""Cases for `headwater.streams`, run by it and by Kafka Streams itself (tests/java/src/StreamsOracle.java)."""
