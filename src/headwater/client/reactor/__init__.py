"""How the client's coroutines run: `kernel` (tasks, futures, timers), `network` and `link` (sockets), `engine` (driven
by the caller's threads) and `aio` (driven by an asyncio loop). What stands on it knows neither threads nor asyncio.
"""
