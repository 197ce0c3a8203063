"""``roceway-probe act``: do something about a blame that lasts, and undo it when it is over."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conf.errors import ConfigError, Finding
from nccltest.act import Act, Blame, Policy, State, act, from_json, label, marked, to_json
from nccltest.commands.judge import history_option
from nccltest.history import History
from tuner.cli import json_option
from tuner.exits import DONE, FOUND

if TYPE_CHECKING:
    from nccltest.kube import Cluster

_KEY = "act"
_URL = "ROCEWAY_WEBHOOK"
_MARKS = ("condition", "event", "label", "taint")
_TEXT = f"""
Looks at the runs that `judge` recorded since the last time. Only one sure suspect counts (confidence 95 % and more),
and only after --after runs in a row; after --clear-after runs in a row that tested the node and found it well, all is
undone. Nothing is done unless asked for:
  --webhook            POST each change as JSON to the address in ${_URL} (or in --webhook-file): it is a secret
  --mark condition,event,label,taint   on the Kubernetes node of a blamed node or NIC; --most N limits the taints
Without either it only tells what is blamed. A leaf, an uplink or a spine is told; no node is marked for it.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = f"{parser.description}\n{_TEXT}"
    history_option(parser)
    parser.add_argument("--after", type=_count, default=2, metavar="RUNS", help="(default: %(default)s)")
    parser.add_argument("--clear-after", type=_count, default=2, metavar="RUNS", help="(default: %(default)s)")
    parser.add_argument("--webhook", action="store_true", help=f"post changes to ${_URL}")
    parser.add_argument("--webhook-file", type=Path, metavar="FILE", help="a file that holds the address instead")
    parser.add_argument("--mark", type=_marks, default=(), metavar="WHAT,…", help=f"of {', '.join(_MARKS)}")
    parser.add_argument(
        "--most", type=_count, default=2, metavar="NODES", help="tainted at once (default: %(default)s)"
    )
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="outside a pod (default: kubectl's)")
    parser.add_argument("--dry-run", action="store_true", help="tell what would be done, do and remember nothing")
    json_option(parser)


def _count(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 10_000:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 to 10000")
    return int(text)


def _marks(text: str) -> tuple[str, ...]:
    strange = [word for word in text.split(",") if word not in _MARKS]
    if strange:
        raise argparse.ArgumentTypeError(f"{', '.join(strange)}: choose from {', '.join(_MARKS)}")
    return tuple(dict.fromkeys(text.split(",")))


def run(options: argparse.Namespace) -> int:
    """0: nothing is blamed. 1: something is."""
    policy = Policy(options.after, options.clear_after, options.most)
    url = _address(options)
    with History.open(options.history, create=False) as history:
        before = from_json(history.memory(_KEY))
        state, acts = _advanced(before, history, policy)
        if not options.dry_run:
            _do(before, state, acts, url, options)
            history.keep(_KEY, to_json(state))
    _print(state, acts, as_json=options.json)
    return FOUND if any(each.acted for each in state.blames) else DONE


def _address(options: argparse.Namespace) -> str:
    """The webhook's address; empty where none is wanted."""
    if options.webhook_file is not None:
        try:
            return str(options.webhook_file.read_text(encoding="utf-8")).strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(str(options.webhook_file), [Finding("", f"cannot be read: {error}")]) from None
    if not options.webhook:
        return ""
    if not os.environ.get(_URL):
        raise ConfigError("--webhook", [Finding("", f"${_URL} is not set")])
    return os.environ[_URL]


def _advanced(state: State, history: History, policy: Policy) -> tuple[State, tuple[Act, ...]]:
    acts: tuple[Act, ...] = ()
    for row in history.runs_after(state.run):
        state, new = act(state, row.id, row.summary, policy)
        acts += new
    return state, acts


def _do(before: State, state: State, acts: Iterable[Act], url: str, options: argparse.Namespace) -> None:
    """Marks first, then words: who is told that a node is tainted finds it so."""
    if options.mark:
        from nccltest.kube import Cluster

        _mark(Cluster.connect(options.kubeconfig), before, state, acts, options.mark)
    if url:
        from nccltest.webhook import post

        for each in acts:
            post(url, _document(each))


def _mark(cluster: Cluster, before: State, state: State, acts: Iterable[Act], marks: tuple[str, ...]) -> None:
    """The wanted marks on every node that has or had one, and events for what changed."""
    now, then = marked(state), marked(before)
    for node in sorted(now.keys() | then.keys()):
        if not _marked(cluster, node, now.get(node, ()), node in state.tainted, marks):
            print(f"roceway-probe act: there is no node {node} in this cluster", file=sys.stderr)
    for each in acts:
        if "event" in marks and each.blame.node:
            cluster.tell(each.blame.node, _REASONS[each.what], _sentence(each), warning=each.what != "clear")


def _marked(cluster: Cluster, node: str, blames: tuple[Blame, ...], tainted: bool, marks: tuple[str, ...]) -> bool:
    """False where there is no such node."""
    found = True
    if "condition" in marks:
        found &= cluster.set_condition(node, bool(blames), *_why(blames))
    if "label" in marks:
        found &= cluster.set_label(node, label(blames))
    if "taint" in marks:
        found &= cluster.set_taint(node, tainted)
    return found


_REASONS = {"blame": "FabricDegraded", "clear": "FabricRecovered", "capped": "FabricDegradedNotTainted"}


def _why(blames: tuple[Blame, ...]) -> tuple[str, str]:
    if not blames:
        return "Recovered", "the all-reduce probe finds nothing slow here"
    kinds = {each.kind for each in blames}
    return "SlowNode" if "node" in kinds else "SlowNIC", "; ".join(f"{each.id}: {each.evidence}" for each in blames)


def _sentence(one: Act) -> str:
    blame = one.blame
    if one.what == "clear":
        return f"{blame.kind} {blame.id} is well again"
    held = "; not tainted: as many nodes as allowed are" if one.what == "capped" else ""
    return f"{blame.kind} {blame.id} is slow, {blame.ratio:.0%} left in {blame.hits} runs: {blame.evidence}{held}"


def _document(one: Act) -> dict[str, Any]:
    blame = one.blame
    return {
        "event": one.what,
        "kind": blame.kind,
        "id": blame.id,
        "node": blame.node,
        "ratio": round(blame.ratio, 4),
        "runs": blame.hits,
        "since": blame.since,
        "text": _sentence(one),
    }


def _print(state: State, acts: tuple[Act, ...], *, as_json: bool) -> None:
    if as_json:
        blames = [{"kind": each.kind, "id": each.id, "runs": each.hits, "acted": each.acted} for each in state.blames]
        changes = [_document(each) for each in acts]
        print(json.dumps({"blames": blames, "tainted": list(state.tainted), "changes": changes}, ensure_ascii=False))
        return
    for each in acts:
        print(f"{each.what}: {_sentence(each)}")
    waiting = [each for each in state.blames if not each.acted]
    acted = [f"{each.kind} {each.id}" for each in state.blames if each.acted]
    print(f"blamed: {', '.join(acted) or 'nothing'}")
    if waiting:
        print("waiting for another run: " + ", ".join(f"{each.kind} {each.id}" for each in waiting))
