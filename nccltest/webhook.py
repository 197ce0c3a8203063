"""Telling another program: one HTTPS POST of JSON for each thing that changed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx

from host.errors import HostError

__all__ = ["post"]

_TIMEOUT = 10.0
_TRIES = 3
_PAUSE = 1.0


def post(url: str, document: Mapping[str, Any]) -> None:
    """Send it, up to three times. HostError names the host alone: a webhook's path and query are its password.

    Redirects are not followed. A 4xx is not tried again; a 5xx and a connection that fails are.
    """
    where = urlsplit(url).hostname or "the webhook"
    refused = ""
    for attempt in range(_TRIES):
        if attempt:
            time.sleep(_PAUSE * attempt)
        try:
            answer = httpx.post(url, json=document, timeout=_TIMEOUT, follow_redirects=False)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            refused = type(error).__name__
            continue
        if answer.is_success:
            return
        refused = f"it says {answer.status_code}"
        if answer.status_code < 500:
            break
    raise HostError("post to", where, 0, refused)
