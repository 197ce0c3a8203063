"""Which rails the kubelet is told to prefer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cni.agent.preference import Offer, newcomer, preferred

EIGHT = {f"rail{n}": Offer(f"rail{n}", f"gpu{n}", n // 4) for n in range(8)}
ALL = sorted(EIGHT)


def choose(
    size: int, *gpus: str, available: list[str] = ALL, must: tuple[str, ...] = (), taken: tuple[str, ...] = ()
) -> list[str]:
    return preferred(available, must, size, EIGHT, gpus, taken)


def test_known_gpus_get_their_own_rails() -> None:
    assert choose(2, "gpu5", "gpu2") == ["rail2", "rail5"]
    assert choose(2, "gpu5", "gpu2", taken=("gpu5", "gpu2")) == ["rail2", "rail5"]


def test_more_rails_than_gpus_come_from_the_same_numa_node() -> None:
    assert choose(3, "gpu6") == ["rail6", "rail4", "rail5"]


def test_a_gpus_rail_that_is_gone_is_replaced_by_a_neighbour_whose_gpu_is_free() -> None:
    left = [ident for ident in ALL if ident != "rail6"]
    assert choose(1, "gpu6", available=left, taken=("gpu4", "gpu6")) == ["rail5"]


def test_unknown_gpus_get_rails_together_on_the_node_that_they_fill() -> None:
    assert choose(4) == ["rail0", "rail1", "rail2", "rail3"]
    assert choose(2, available=["rail0", "rail1", "rail2", "rail6", "rail7"]) == ["rail6", "rail7"]
    assert choose(4, taken=("gpu0", "gpu1")) == ["rail4", "rail5", "rail6", "rail7"]


def test_what_must_be_included_draws_the_rest_to_its_node() -> None:
    assert choose(3, must=("rail7",)) == ["rail7", "rail4", "rail5"]


def test_a_second_function_of_one_rail_comes_last() -> None:
    pool = {f"rail{n}@vf{v}": Offer(f"rail{n}", f"gpu{n}", 0) for n in range(2) for v in range(2)}
    assert preferred(sorted(pool), (), 2, pool, (), ()) == ["rail0@vf0", "rail1@vf0"]
    assert len(preferred(sorted(pool), (), 4, pool, (), ())) == 4


@given(
    st.sets(st.sampled_from(ALL)),
    st.sets(st.sampled_from(ALL), max_size=3),
    st.integers(0, 8),
    st.sets(st.sampled_from([offer.gpu for offer in EIGHT.values()])),
    st.sets(st.sampled_from([offer.gpu for offer in EIGHT.values()])),
)
def test_the_answer_is_always_one_that_the_kubelet_can_use(
    available: set[str], must: set[str], size: int, gpus: set[str], taken: set[str]
) -> None:
    available |= must
    size = max(size, len(must))
    found = preferred(sorted(available), sorted(must), size, EIGHT, gpus, taken)
    assert len(found) == len(set(found)) == min(size, len(available))
    assert must <= set(found) <= available
    assert found == preferred(sorted(available, reverse=True), sorted(must), size, EIGHT, gpus, taken)
    own = {f"rail{gpu[3:]}" for gpu in gpus} & available
    assert len(own & set(found)) >= min(len(own), size - len(must)), "no GPU's own rail is passed over"


def test_the_container_being_admitted_is_the_one_that_was_not_there_before() -> None:
    assert newcomer({"a": ["g1"], "b": ["g2", "g3"]}, {"a"}, 2) == ["g2", "g3"]
    assert newcomer({"a": ["g1"], "b": ["g2", "g3"]}, set(), 2) == ["g2", "g3"], "the only one of this size"
    assert newcomer({"a": ["g1"], "b": ["g2"]}, set(), 1) == (), "which of the two is not told"
    assert newcomer({"a": ["g1"]}, {"a"}, 1) == (), "its GPUs come after its rails"
    assert newcomer({}, set(), 1) == ()
