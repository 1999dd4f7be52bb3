"""The REST door of a worker: Kafka Connect's paths, answers and error bodies."""
