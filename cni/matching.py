"""The assignment problem: rows to columns at the least total cost. Pure.

Small (a node has at most some sixteen GPUs), so the plain Hungarian method in integers: exact, and no 200 ms for scipy.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["cheapest"]


def cheapest(costs: Sequence[Sequence[int]]) -> list[int]:
    """The column of each row such that no column is taken twice and the sum is least (Kuhn 1955, Munkres 1957).

    Rows join one by one; each takes its column along the cheapest chain of rows that move over. Needs at least as
    many columns as rows; n rows and m columns take n²·m steps.
    """
    width = len(costs[0]) if costs else 0
    row_price, column_price = [0] * len(costs), [0] * width
    owner: list[int | None] = [None] * width
    for row in range(len(costs)):
        column, previous = _shortest_chain(costs, row, owner, row_price, column_price)
        while column is not None:  # everybody on the chain moves over by one
            before, row_there = previous[column]
            owner[column] = row_there
            column = before
    chosen = [0] * len(costs)
    for column, holder in enumerate(owner):
        if holder is not None:
            chosen[holder] = column
    return chosen


def _shortest_chain(
    costs: Sequence[Sequence[int]],
    start: int,
    owner: Sequence[int | None],
    row_price: list[int],
    column_price: list[int],
) -> tuple[int | None, dict[int, tuple[int | None, int]]]:
    """Dijkstra over reduced costs from row ``start`` to the nearest free column; prices are brought up to date.

    Returns that column, and for every column reached the column before it on the chain and the row that takes it.
    """
    reach: dict[int, int] = {}
    previous: dict[int, tuple[int | None, int]] = {}
    done: dict[int, int] = {}
    row, here, so_far = start, None, 0
    while True:
        for column, cost in enumerate(costs[row]):
            if column in done:
                continue
            way = so_far + cost - row_price[row] - column_price[column]
            if column not in reach or way < reach[column]:
                reach[column], previous[column] = way, (here, row)
        here = min((column for column in reach if column not in done), key=lambda column: (reach[column], column))
        so_far = done[here] = reach[here]
        holder = owner[here]
        if holder is None:
            break
        row = holder
    row_price[start] += so_far
    for column, way in done.items():
        taken_by = owner[column]
        column_price[column] -= so_far - way
        if taken_by is not None:
            row_price[taken_by] += so_far - way
    return here, previous
