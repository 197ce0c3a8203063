"""Whether plugin and agent look at the same host: a path means the same to both only if it does.

The plugin tells by device and inode number what it is in and what its paths lead to; the agent compares with what it
sees itself. An agent in a container whose mounts are not the host's so refuses, instead of writing a second journal
where nobody looks.
"""

from __future__ import annotations

import os
from typing import NamedTuple

__all__ = ["View", "difference", "look", "parse", "text"]

NOTHING = "-"


class View(NamedTuple):
    """Device and inode number, ``dev:ino``, of each; ``-`` where there is nothing."""

    network: str
    """The network namespace that the process is in."""
    mounts: str
    """The mount namespace that it is in."""
    pod: str
    """What CNI_NETNS leads to."""
    state: str
    """The state folder."""


def look(pod: str, state: str) -> View:
    """What the calling process sees."""
    paths = ("/proc/self/ns/net", "/proc/self/ns/mnt", pod, state)
    return View(*(_number(path) for path in paths))


def _number(path: str) -> str:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return NOTHING
    return f"{status.st_dev}:{status.st_ino}"


def text(view: View) -> str:
    """On the wire."""
    return " ".join(view)


def parse(said: str) -> View:
    """The inverse of :func:`text`. ValueError for anything else."""
    fields = said.split(" ")
    if len(fields) != len(View._fields):
        raise ValueError("the request does not say what the plugin sees")
    return View(*fields)


def difference(plugin: View, agent: View) -> str:
    """Why the agent must not work for the plugin; empty when both see the same."""
    if plugin.network != agent.network:
        return "the plugin is in another network namespace than the agent"
    if plugin.pod != agent.pod:
        return "CNI_NETNS leads the agent elsewhere: it does not see the host's /run/netns"
    if plugin.state != agent.state:
        return "the state folder is another one for the agent: it does not see the host's"
    return ""
