"""Benchmarks: each figure beside the limit of this machine in the same run, and beside Apache Kafka when asked.

`python -m bench` prints a table and writes bench/results/latest.json; docs/PERFORMANCE.md says how it measures.
"""
