"""What a worker counts, under Kafka Connect's names, and the text that Prometheus reads."""
