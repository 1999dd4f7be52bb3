"""The logical graph, and the topology that it becomes: repartition topics, sub-topologies, names as Kafka Streams gives
them. Pure.
"""
