"""The agent's log: one JSON object a line, for people with ``jq`` and for whatever collects logs."""

from __future__ import annotations

import json
import logging
import time
from contextlib import suppress

__all__ = ["JsonLines"]


class JsonLines(logging.Formatter):
    """``{"time", "level", "event", …}``. Fields come from ``extra={"fields": {…}}``, or from a message that is JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever the message holds: JSON has no raw line breaks."""
        message = record.getMessage()
        fields = getattr(record, "fields", {})
        if message.startswith("{"):
            with suppress(ValueError):
                fields, message = json.loads(message), "request"
        line = {"time": _time(record.created), "level": record.levelname.lower(), "event": message, **fields}
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def _time(seconds: float) -> str:
    """RFC 3339 in UTC, to the millisecond."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds % 1 * 1000):03d}Z"
