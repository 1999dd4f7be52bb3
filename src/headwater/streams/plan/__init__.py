"""The logical graph, and how it becomes a topology: repartition topics, merged sources, names as Kafka Streams gives
them. Pure.
"""
