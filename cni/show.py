"""Reports as text for people: tables on a terminal and in a pipe alike, colours only where they are wanted."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cni.spec import Json

__all__ = ["explanation", "make_table", "open_console", "state"]

_PIPE_WIDTH = 160
_RAIL_COLUMNS = (
    "rail",
    "mode",
    "NIC",
    "RDMA",
    "GPU",
    "distance",
    "MTU",
    "address",
    "gateway",
    "table",
    "why this NIC",
)
_STYLES = {"attached": "green", "attaching": "yellow", "detaching": "yellow", "gone": "red"}


def open_console() -> Console:
    """Where tables go: as wide as the terminal, or as a pipe bears."""
    console = Console(highlight=False)  # honours NO_COLOR, and writes no escape codes into a pipe
    return console if console.is_terminal else Console(highlight=False, width=_PIPE_WIDTH)


def make_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Columns without lines between them; known states in their colours."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
    return table


def state(report: Json) -> None:
    """Print attachments, leases and journal."""
    console = open_console()
    if not report["attachments"]:
        console.print("no attachments")
        return
    rows = [
        (
            each["container"][:13],
            each["pod"] or "-",
            each["network"],
            each["state"] if each["alive"] else "gone",
            " ".join(each["rails"]),
            _age(each["age_s"]),
        )
        for each in report["attachments"]
    ]
    console.print(make_table("Attachments", ("container", "pod", "network", "state", "rails", "age"), rows))
    leases = [(each["rail"], each["address"], each["container"][:13]) for each in report["leases"]]
    console.print()
    console.print(make_table("Leases", ("rail", "address", "container"), leases))
    for each in report["journal"]:
        console.print()
        title = f"Journal of {each['container'][:13]} ({each['state']})"
        console.print(make_table(title, ("step", "begun", "what"), _steps(each["steps"], each["begun"])))


def explanation(report: Json) -> None:
    """Print one attachment: what, why, and what is wrong."""
    console = open_console()
    pod = f", pod {report['pod']}" if report["pod"] else ""
    console.print(f"container {report['container']}{pod}, network {report['network']}, {report['state']}")
    console.print(f"namespace {report['netns']} ({'alive' if report['alive'] else 'gone'})")
    console.print(f"rails selected by: {report['selected_by']}")
    if report["gpus"]:
        console.print(f"GPUs of the pod: {' '.join(report['gpus'])}")
    for warning in report["warnings"]:
        console.print(Text(f"warned when it was attached: {warning}", style="yellow"))
    console.print()
    rows = [
        (
            rail["name"],
            rail["mode"],
            f"{rail['device']} {rail['pci']}".strip(),
            rail["rdma"] or "-",
            rail["gpu"] or "-",
            rail["distance"] or "-",
            str(rail["mtu"]),
            " ".join(rail["addresses"]),
            " ".join(rail["gateways"]) or "-",
            str(rail["table"] or "-"),
            rail["why"],
        )
        for rail in report["rails"]
    ]
    console.print(make_table("Rails", _RAIL_COLUMNS, rows))
    if any(rail["gpu_of"] == "node" for rail in report["rails"]):
        console.print("GPU: the one that this node pairs with the NIC; that the pod has it is not known")
    for note in report["notes"]:
        console.print(Text(note, style="yellow"))
    console.print()
    if report["problems"]:
        console.print(Text("wrong now:", style="red"))
        for problem in report["problems"]:
            console.print(f"  {problem}")
    else:
        console.print(Text("wrong now: nothing; every rail is as it was attached", style="green"))


def _steps(steps: Sequence[str], begun: int) -> list[tuple[str, str, str]]:
    return [(str(number), "yes" if number <= begun else "no", step) for number, step in enumerate(steps, 1)]


def _age(seconds: int) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
