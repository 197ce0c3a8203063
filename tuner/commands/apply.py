"""``apply``: make this host what fabric.yaml says, or leave it as it was."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from conf.errors import ConfigError
from host.errors import HostError
from tuner.apply import Outcome, applied_record, recover, reveal
from tuner.apply import run as run_steps
from tuner.cli import fabric_options, json_option
from tuner.drift import diff
from tuner.exits import DONE, FOUND, REFUSED
from tuner.gather import Doors
from tuner.hands import Hands
from tuner.nic import Applied
from tuner.plan import NicPlan, absent, plan
from tuner.report import code_of, notes, plans_json
from tuner.session import Look, Tell, look, need_root, read, seconds, state_option, stored, teller, terminable
from tuner.store import WAY_OUT, Store
from tuner.verdict import of_plans, write

if TYPE_CHECKING:
    from conf.fabric import Fabric

_ABOUT = """
Every step is read back. The first that is refused, or whose value is not there afterwards, undoes all the others in
reverse, and what was wanted and what was got is printed. Killed at any moment, `apply` or `rollback` mends the host.
Rails that a pod has are left alone. A second run finds nothing to do and writes nothing.

Exit 0: the host is what fabric.yaml says. 1: some rails were left alone. 3: refused, everything was put back.
"""

_POLL = 0.5


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = f"{_ABOUT}\n{parser.epilog}"
    fabric_options(parser)
    parser.add_argument("--in-use", action="store_true", help="also change rails that a pod has; PFC drops its link")
    parser.add_argument(
        "--appear", type=seconds, default=0.0, metavar="S", help="wait for NICs that are not there yet, as after a boot"
    )
    parser.add_argument("--wait", type=seconds, default=0.0, metavar="S", help="wait for another run to end")
    state_option(parser)
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    """Plan, change, prove, print."""
    need_root("change")
    fabric, store = read(options), stored(options)
    with terminable(), store.held(options.wait), Doors() as doors:
        return _apply(options, fabric, store, doors, teller(options))


def _apply(options: argparse.Namespace, fabric: Fabric, store: Store, doors: Doors, tell: Tell) -> int:
    hands = Hands(doors)
    here = _appeared(options, fabric, store, doors, tell)
    left = recover(store, hands, here.seen.boot_id, tell)
    if left:
        raise HostError("undo", "an earlier run", 0, f"{'; '.join(str(error) for error in left)}; {WAY_OUT}")
    if reveal(doors, here.seen) or left is not None:
        here = look(fabric, options.node, doors, store)
    plans = plan(here.wanted, here.seen, in_use=options.in_use)
    for each in plans:
        for sentence in notes(each):
            tell(f"{each.rail} ({each.nic}): {sentence}")
    steps = tuple(step for each in plans for step in each.steps)
    outcome = run_steps(steps, here.seen, store, hands, tell) if steps else Outcome()
    if steps:
        here = look(fabric, options.node, doors, store)
    return _conclude(options, here, plans, outcome, store)


def _appeared(options: argparse.Namespace, fabric: Fabric, store: Store, doors: Doors, tell: Tell) -> Look:
    """A look at the host, once all its rails' NICs are there or --appear is over: drivers are still loading."""
    from conf.node import node  # pydantic: see tuner.session

    node(fabric, options.node)  # nobody waits for a host that fabric.yaml does not know
    deadline, said = time.monotonic() + options.appear, False
    while True:
        late = time.monotonic() >= deadline
        try:
            here = look(fabric, options.node, doors, store)
            missing = absent(here.wanted, here.seen)
        except ConfigError:  # rails: auto, and there are fewer NICs than rails
            if late:
                raise
            missing = ("the rails' NICs",)
        if late or not missing:
            return here
        if not said:
            tell(f"waiting up to {options.appear:g} s for {', '.join(missing)}")
            said = True
        time.sleep(_POLL)


def _conclude(
    options: argparse.Namespace, here: Look, plans: tuple[NicPlan, ...], outcome: Outcome, store: Store
) -> int:
    """What the host is now decides, not what was done."""
    after = plan(here.wanted, here.seen, in_use=True)
    code = _code(outcome, plans, after)
    if outcome.cause is None:
        _record(store, applied_record(here.wanted, here.seen, complete=code == DONE))
    write(options.state_dir, of_plans(after, here.seen))
    if options.json:
        print(json.dumps(_json(here, outcome, after), indent=2))
    else:
        teller(options)(_sentence(outcome, code, plans))
    _complain(outcome)
    return code


def _code(outcome: Outcome, plans: tuple[NicPlan, ...], after: tuple[NicPlan, ...]) -> int:
    if outcome.cause is not None or any(each.blocked for each in plans):
        return REFUSED
    return FOUND if code_of(after) != DONE or any(each.skipped for each in after) else DONE


def _record(store: Store, record: Applied) -> None:
    """Only what is news: a second apply writes nothing."""
    before = store.applied()
    if before is None or replace(before, at="") != replace(record, at=""):
        store.set_applied(record)


def _sentence(outcome: Outcome, code: int, plans: tuple[NicPlan, ...]) -> str:
    if outcome.cause is not None:
        return "nothing was changed: everything was put back" if not outcome.left else "NOT everything was put back"
    count = len(outcome.done)
    done = f"{count} step{'s' * (count != 1)} done and read back" if count else "nothing to do"
    if code == DONE:
        hedge = ", as far as its drivers show it" if any(each.unseen for each in plans) else ""
        return f"{done}; this host is what fabric.yaml says{hedge}"
    alone = ", ".join(each.rail for each in plans if each.skipped or each.blocked)
    return f"{done}; left alone: {alone or 'see verify'}"


def _json(here: Look, outcome: Outcome, after: tuple[NicPlan, ...]) -> dict[str, Any]:
    return {
        "done": [str(step) for step in outcome.done],
        "error": str(outcome.cause) if outcome.cause else None,
        "not_put_back": [str(error) for error in outcome.left],
        "diff": diff(here.wanted, here.seen).splitlines(),
        **plans_json(after),
    }


def _complain(outcome: Outcome) -> None:
    if outcome.cause is not None:
        print(f"roceway-tune: {outcome.cause}", file=sys.stderr)
    for error in outcome.left:
        print(f"roceway-tune: not put back: {error}; `roceway-tune rollback` tries again", file=sys.stderr)
