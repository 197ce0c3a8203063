"""A plan carried out with a launcher of values: the budget holds whatever hangs, and every round is recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from nccltest.launch.backend import Result
from nccltest.launch.job import Bench, Job
from nccltest.launch.process import GRACE, Ended
from nccltest.model import Fingerprint, Measurement, Member
from nccltest.run_session import Limits, Session
from nccltest.schedule import Group, Plan, Round, cost_of
from tests.nccltest.parse.printed import STYLES, printed
from tests.nccltest.parse.test_versions import table
from tests.nccltest.schedule.clusters import timing

STYLE = next(style for style in STYLES if style.name == "2.17.4")
BENCH = Bench(("bench",), {}, (4096, 8192, 16384), 1, 2, 8, ("rail0", "rail1"))
OUTPUT = printed(STYLE, table(STYLE), ("a", "b"))


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Launched:
    """Every launch takes as long as it is told to; one that takes longer than its timeout is ended then."""

    shell = None

    def __init__(self, clock: Clock, seconds: Callable[[Job], float], text: str = OUTPUT, code: int = 0) -> None:
        self.clock = clock
        self.seconds = seconds
        self.text = text
        self.code = code
        self.jobs: list[Job] = []

    def run(self, jobs: Sequence[Job], _stop: Callable[[], bool]) -> list[Result]:
        self.jobs += jobs
        results = []
        for job in jobs:
            took = self.seconds(job)
            ended = (
                Ended("timeout", 143, "", job.timeout + 2 * GRACE)
                if took > job.timeout
                else Ended("ended", self.code, self.text, took)
            )
            results.append(Result(ended, (), ()))
        self.clock.now += max(result.ended.seconds for result in results)
        return results


class Kept:
    def __init__(self) -> None:
        self.measured: list[Measurement] = []
        self.outputs: dict[str, str] = {}

    def append(self, measurements: Sequence[Measurement]) -> None:
        self.measured += measurements

    def keep_output(self, name: str, text: str) -> None:
        self.outputs[name] = text


class Silent:
    def begins(self, number: int, of: int, one: Round) -> None: ...

    def measured(self, measurements: Sequence[Measurement]) -> None: ...

    def says(self, text: str) -> None: ...


def group(*nodes: str, rail: str | None = "rail0") -> Group:
    return Group(tuple(Member(node, rail) for node in nodes), "pair")


def plan(*rounds: Round) -> Plan:
    return Plan(rounds, cost_of(rounds, timing()), ())


def session(launched: Launched, limits: Limits, stop: Callable[[], bool] = lambda: False) -> tuple[Session, Kept]:
    kept = Kept()
    made = Session(
        BENCH, launched, limits, Fingerprint("", "", "", "e", "f"), kept, Silent(), stop,
        schedule="s", clock=launched.clock, now=lambda: 1000.0,
    )  # fmt: skip
    return made, kept


@given(
    st.floats(0, 200),
    st.dictionaries(st.sampled_from("abcd"), st.floats(0, 100)),
    st.lists(st.floats(0.1, 120), min_size=1, max_size=12),
    st.integers(1, 4),
    st.floats(1, 60),
)
@settings(deadline=None)
def test_no_node_ever_spends_more_than_its_budget(
    budget: float, spent: dict[str, float], takes: list[float], repeats: int, timeout: float
) -> None:
    clock = Clock()
    order = iter(takes * 50)
    launched = Launched(clock, lambda _: next(order))
    made, kept = session(launched, Limits(repeats, timeout, budget, spent))
    rounds = [
        Round("random", (group("a", "b"), group("c", "d"))),
        Round("random", (group("a", "c"), group("b", "d"))),
    ] * 3
    made.run(plan(*rounds))
    used: Counter[str] = Counter(spent)
    for each in {(one.round, one.members): one for one in kept.measured}.values():
        for node in each.nodes:
            used[node] += each.seconds  # type: ignore[assignment]  # a Counter adds floats as well
    for node, total in used.items():
        assert total <= max(budget, spent.get(node, 0.0)) + 1e-6


def test_the_median_of_the_repeats_counts_and_all_are_kept() -> None:
    rates = iter([8.0, 2.0, 5.0])
    clock = Clock()
    launched = Launched(clock, lambda _: 1.0)

    def varied(jobs: Sequence[Job], _stop: Callable[[], bool]) -> list[Result]:
        text = OUTPUT.replace("  12.00 ", f"  {next(rates) * 10:5.2f} ").replace("  13.50 ", "  99.00 ")
        return [Result(Ended("ended", 0, text, 1.0), (), ()) for _ in jobs]

    launched.run = varied  # type: ignore[method-assign]  # the same launcher with other output
    made, kept = session(launched, Limits(3, 60.0, 1000.0))
    made.run(plan(Round("random", (group("a", "b"),))))
    assert [each.size for each in kept.measured] == [4096, 8192, 16384]
    assert kept.measured[0].samples == ((80 + 99) / 2, (20 + 99) / 2, (50 + 99) / 2)
    assert kept.measured[0].busbw == (50 + 99) / 2
    assert kept.measured[0].weight == 3
    assert (kept.measured[0].schedule, kept.measured[0].round, kept.measured[0].purpose) == ("s", 0, "random")


def test_a_hung_group_is_not_started_again_and_the_others_go_on() -> None:
    clock = Clock()
    launched = Launched(clock, lambda job: 1e9 if "a" in job.nodes else 1.0)
    made, kept = session(launched, Limits(3, 30.0, 1000.0))
    made.run(plan(Round("random", (group("a", "b"), group("c", "d")))))
    hung, fine = [each for each in kept.measured if each.size == 16384]
    assert (hung.status, hung.busbw) == ("timeout", None)
    assert fine.status == "ok"
    assert sum("a" in job.nodes for job in launched.jobs) == 1
    assert list(kept.outputs) == ["s-000-a+b-rail0"]


def test_a_group_that_fails_once_is_tried_again_and_then_given_up() -> None:
    clock = Clock()
    launched = Launched(clock, lambda _: 1.0, "a: Test NCCL failure x:1 'remote process exited'\n", 3)
    made, kept = session(launched, Limits(5, 60.0, 1000.0))
    made.run(plan(Round("random", (group("a", "b"),))))
    (failed,) = kept.measured
    assert (failed.status, failed.busbw) == ("failed", None)
    assert failed.errors == ("a: Test NCCL failure x:1 'remote process exited'",)
    assert len(launched.jobs) == 2


def test_wrong_data_outranks_everything() -> None:
    clock = Clock()
    launched = Launched(clock, lambda _: 1.0, OUTPUT.replace("values : 0 OK", "values : 3 FAILED"), 7)
    made, kept = session(launched, Limits(1, 60.0, 1000.0))
    made.run(plan(Round("random", (group("a", "b"),))))
    assert {each.status for each in kept.measured} == {"wrong-data"}
    assert all(each.busbw is None for each in kept.measured)


def test_a_stop_between_rounds_starts_nothing_more() -> None:
    clock = Clock()
    launched = Launched(clock, lambda _: 1.0)
    made, kept = session(launched, Limits(1, 60.0, 1000.0), stop=lambda: clock.now > 0)
    made.run(plan(Round("random", (group("a", "b"),)), Round("random", (group("c", "d"),))))
    assert {each.nodes for each in kept.measured} == {("a", "b")}
