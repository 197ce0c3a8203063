"""The log: one object a line, whatever is logged."""

from __future__ import annotations

import json
import logging
import re
import sys
from typing import Any

from cni.agent.jsonlog import JsonLines


def line(message: str, *args: object, **extra: Any) -> dict[str, Any]:
    record = logging.LogRecord("roceway-agent", logging.WARNING, "x.py", 1, message, args, extra.pop("exc_info", None))
    record.__dict__.update(extra)
    text = JsonLines().format(record)
    assert "\n" not in text
    parsed: dict[str, Any] = json.loads(text)
    return parsed


def test_a_message_with_its_time_and_level() -> None:
    told = line("serving on %s", "/run/x")
    assert (told["event"], told["level"]) == ("serving on /run/x", "warning")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", told["time"])


def test_fields_and_messages_that_are_json_become_fields() -> None:
    assert line("rails drifted", fields={"pod": "a", "differences": ["x"]})["differences"] == ["x"]
    told = line("%s", json.dumps({"verb": "ADD", "ms": 1.5}))
    assert (told["event"], told["verb"], told["ms"]) == ("request", "ADD", 1.5)
    assert line("{ not json")["event"] == "{ not json"


def test_line_breaks_and_hostile_names_stay_within_the_line() -> None:
    assert line('pod\n{"level": "info"}')["event"] == 'pod\n{"level": "info"}'
    assert line("x", fields={"pod": "a\nb", "odd": object})["pod"] == "a\nb"


def test_a_trace_is_a_field() -> None:
    try:
        raise ValueError("boom")
    except ValueError:
        assert "ValueError: boom" in line("failed", exc_info=sys.exc_info())["trace"]
