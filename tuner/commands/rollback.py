"""``rollback``: back to what this host was before an ``apply``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from conf.errors import ConfigError, Finding
from host.errors import HostError
from tuner.apply import attempt, recover, restoring
from tuner.cli import json_option
from tuner.exits import DONE, FOUND, REFUSED
from tuner.gather import Doors, gather
from tuner.hands import Hands
from tuner.session import Tell, need_root, seconds, state_option, stored, teller, terminable
from tuner.steps import Step
from tuner.store import WAY_OUT, Snapshot, Store

_ABOUT = """
Without a name: first whatever a killed run left behind, else the newest snapshot. With one, everything since that
snapshot is undone. What was restored is no snapshot any more. Rails that a pod has are left alone without --in-use.

  roceway-tune rollback --list
  roceway-tune rollback 20260101T120000Z
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = f"{_ABOUT}\n{parser.epilog}"
    parser.add_argument("snapshot", nargs="?", help="a name that --list prints")
    parser.add_argument("--list", action="store_true", help="the snapshots there are, with what each run did")
    parser.add_argument("--in-use", action="store_true", help="also change rails that a pod has")
    parser.add_argument(
        "--forget", action="store_true", help="give up a run that was cut off and cannot be undone: its NIC is gone"
    )
    parser.add_argument("--wait", type=seconds, default=0.0, metavar="S", help="wait for another run to end")
    state_option(parser)
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    """List, or restore and print."""
    need_root("change")
    store = stored(options)
    if options.list:
        return _list(options, store)
    tell = teller(options)
    if options.forget:
        with store.held(options.wait):
            return _forget(options, store, tell)
    with terminable(), store.held(options.wait), Doors() as doors:
        return _rollback(options, store, doors, tell)


def _list(options: argparse.Namespace, store: Store) -> int:
    kept = [store.snapshot(name) for name in store.snapshots()]
    if options.json:
        print(
            json.dumps(
                [{"snapshot": each.name, "steps": [str(step) for step in each.steps]} for each in kept], indent=2
            )
        )
        return DONE
    for each in kept:
        print(f"{each.name}: before {len(each.steps)} step{'s' * (len(each.steps) != 1)}")
        print("\n".join(f"  {step}" for step in each.steps))
    return DONE


def _forget(options: argparse.Namespace, store: Store, tell: Tell) -> int:
    """Drop the journal, saying what is not undone then: all that it names, or that it cannot be read."""
    try:
        journal = store.journal()
        lost = None if journal is None else [f"perhaps not as it was: {step}" for step in journal.steps]
    except HostError as error:
        lost = [str(error)]
    if lost is None:
        tell("there is nothing to forget: no unfinished run")
        lost = []
    for sentence in lost:
        tell(f"  {sentence}")
    store.end()
    if lost:
        tell("forgotten: `roceway-tune verify` says what is not as fabric.yaml wants it, `apply` makes it so")
    if options.json:
        print(json.dumps({"done": [], "not_put_back": lost, "skipped": []}, indent=2))
    return DONE


def _rollback(options: argparse.Namespace, store: Store, doors: Doors, tell: Tell) -> int:
    hands = Hands(doors)
    boot_id = gather(doors, [], in_use=False).boot_id
    left = recover(store, hands, boot_id, tell)
    if left:
        tell(WAY_OUT)
    if left or (left is not None and options.snapshot is None):
        return _conclude(options, [], left, ())
    chain = _chain(store, options.snapshot)
    if not chain:
        tell("there is nothing to roll back: no snapshot, no unfinished run")
        return _conclude(options, [], (), ())
    return _restore(options, store, hands, chain, tell)


def _chain(store: Store, name: str | None) -> list[Snapshot]:
    """The snapshot to return to and all newer ones, oldest first."""
    names = store.snapshots()
    if name is not None and name not in names:
        raise ConfigError(
            "rollback", [Finding("snapshot", f"there is no {name}; there is {', '.join(names) or 'none'}")]
        )
    start = names.index(name) if name is not None else len(names) - 1
    return [store.snapshot(each) for each in names[max(start, 0) :]]


def _restore(options: argparse.Namespace, store: Store, hands: Hands, chain: Sequence[Snapshot], tell: Tell) -> int:
    nics = list(dict.fromkeys(step.nic for each in chain for step in each.steps))
    seen = gather(hands.doors, nics)
    busy = [nic.name for nic in seen.nics if nic.in_use is not None and not options.in_use]
    steps = [step for step in restoring(chain, seen) if step.nic not in busy]
    skipped = tuple(f"{nic} is in use by a pod; --in-use changes it all the same" for nic in busy)
    for sentence in skipped:
        tell(f"skipped: {sentence}")
    left = attempt(steps, hands, tell)
    if not left and not skipped:
        for each in chain:
            store.drop(each.name)
        store.forget()
    return _conclude(options, steps, left, skipped)


def _conclude(
    options: argparse.Namespace, steps: Sequence[Step], left: Sequence[HostError], skipped: Sequence[str]
) -> int:
    values: dict[str, Any] = {
        "done": [str(step) for step in steps],
        "not_put_back": [str(error) for error in left],
        "skipped": list(skipped),
    }
    if options.json:
        print(json.dumps(values, indent=2))
    for error in left:
        print(f"roceway-tune: not put back: {error}", file=sys.stderr)
    if left:
        return REFUSED
    if not options.json:
        teller(options)("everything is as it was" if not skipped else "some rails were left alone")
    return FOUND if skipped else DONE
