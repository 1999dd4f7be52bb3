"""Counts customers by country: one consumer of the group CountryCounter, until Ctrl-C.

    python examples/country_counter.py [BOOTSTRAP [TOPIC]]

The topic customerCountries holds a customer's name as the key and a country as the value.
"""

import json
import signal
import sys
from collections import Counter

from headwater.client import Consumer, WakeupError


def main() -> None:
    bootstrap = sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"
    topic = sys.argv[2] if len(sys.argv) > 2 else "customerCountries"
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "CountryCounter",
            "key.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",  # or just "string"
            "value.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])  # re.compile("customer.*") takes all topics of that name, also those that come later
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: consumer.wakeup())

    countries: Counter[str] = Counter()
    try:
        while True:
            for record in consumer.poll(0.1):
                print(
                    f"topic = {record.topic}, partition = {record.partition}, offset = {record.offset}, "
                    f"customer = {record.key}, country = {record.value}"
                )
                countries[record.value] += 1
                print(json.dumps(countries, indent=4), flush=True)
    except WakeupError:
        pass  # Ctrl-C
    finally:
        consumer.close()  # commits, and leaves the group at once


if __name__ == "__main__":
    main()
