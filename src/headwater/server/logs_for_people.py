"""Log lines on stderr: `time level logger key=value ...`, or one JSON object per line with `log.format=json`."""

import json
import logging
import sys
import time


class TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        seconds, rest = divmod(record.created, 1)
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
        text = f"{stamp}.{int(rest * 1000):03d}Z {record.levelname:7} {record.name} {record.getMessage()}"
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return text


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": round(record.created, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def configure(log_format: str, level: str = "INFO") -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    root = logging.getLogger("headwater")
    root.handlers[:] = [handler]
    root.setLevel(level)
    root.propagate = False
