"""Runs as one picture: what happened over time, how long each fault kept senders waiting."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, MultipleLocator, NullLocator

from cluster.bounds import BOUNDS
from cluster.report import recoveries, spread
from cluster.run import Outcome

_GOOD, _BAD, _INK, _GREY, _PALE = "#2a7f9e", "#d9653b", "#22303c", "#5b6b78", "#dfe5ea"
_STRUCK, _MENDING, _OUT = "#f2c6b3", "#f3ead2", "#7a9a3b"
_WIDTH, _HEAD, _RUN, _ROW = 14.0, 1.15, 4.55, 0.255
_LEFT, _RIGHT = 0.055, 0.99
mpl.rcParams |= {"font.family": "DejaVu Sans", "font.size": 9, "text.color": _INK}


def draw(outcomes: Sequence[Outcome], subtitle: str, path: Path) -> None:
    """Draw all runs, the times of recovery and the verdicts."""
    rows = max(len(recoveries(outcomes)), len(outcomes[0].findings) + 1) + 2.5
    height = _HEAD + _RUN * len(outcomes) + rows * _ROW + 0.3
    figure = Figure(figsize=(_WIDTH, height), dpi=120, facecolor="white")
    figure.text(0.02, 1 - 0.36 / height, _title(outcomes), fontsize=15, weight="bold")
    figure.text(0.02, 1 - 0.62 / height, subtitle, fontsize=8.5, color=_GREY)
    _legend(figure, 1 - 0.88 / height)
    for number, outcome in enumerate(outcomes):
        top = 1 - (_HEAD + _RUN * number) / height
        width = _RIGHT - _LEFT
        rates = figure.add_axes((_LEFT, top - 2.8 / height, width, 1.55 / height))
        waits = figure.add_axes((_LEFT, top - 4.1 / height, width, 1.2 / height))
        _run(rates, waits, outcome)
    _tables(figure, outcomes, rows * _ROW / height, height)
    figure.savefig(path)


def _title(outcomes: Sequence[Outcome]) -> str:
    messages = sum(outcome.counts["acknowledged messages"] for outcome in outcomes)
    lost = sum(outcome.counts["lost"] for outcome in outcomes)
    faults = sum(len(outcome.outages) for outcome in outcomes)
    return f"SkipMQ under faults: {faults} faults, {messages:,} messages acknowledged, {lost} lost"


def _legend(figure: Figure, y: float) -> None:
    handles: list[Any] = [
        Patch(color=_GOOD, alpha=0.55, label="acknowledged sends a second"),
        Line2D([], [], color=_OUT, lw=1.2, label="deliveries a second"),
        Line2D([], [], color=_GOOD, lw=0, marker=".", ms=5, label="a send and how long it took"),
        Line2D([], [], color=_BAD, lw=0, marker="x", ms=5, label="a request of unknown outcome"),
        Patch(color=_STRUCK, label="struck"),
        Patch(color=_MENDING, label="healed, not yet healthy"),
    ]
    figure.legend(
        handles=handles, ncols=6, frameon=False, fontsize=8.5, loc="center left",
        bbox_to_anchor=(0.015, y), handlelength=1.4, columnspacing=1.6,
    )  # fmt: skip


def _run(rates: Any, waits: Any, outcome: Outcome) -> None:
    record = outcome.record
    begin = record.ops[0].t_invoke
    end = max(op.t_ok for op in record.ops if op.op == "receive") - begin
    seconds = range(int(end) + 1)
    sends = Counter(int(op.t_ok - begin) for op in record.acknowledged)
    given = Counter(int(op.t_ok - begin) for op in record.of("receive") if op.message_id)
    rates.fill_between(
        seconds, [sends[s] for s in seconds], step="post", color=_GOOD, alpha=0.55, lw=0
    )
    rates.step(seconds, [given[s] for s in seconds], where="post", color=_OUT, lw=0.9)
    requests = {(op.process, op.t_invoke): op for op in record.of("send")}.values()
    answered = [op for op in requests if op.type == "ok"]
    unknown = [op for op in record.of("receive") if op.type == "info"]
    unknown += [op for op in requests if op.type == "info"]
    dots = {"color": _GOOD, "marker": ".", "s": 9, "alpha": 0.4, "lw": 0}
    crosses = {"color": _BAD, "marker": "x", "s": 14, "alpha": 0.5, "lw": 0.8}
    for ops, style in ((answered, dots), (unknown, crosses)):
        at = [op.t_invoke - begin for op in ops]
        waits.scatter(at, [(op.t_ok - op.t_invoke) * 1e3 for op in ops], **style)
    _faults(rates, waits, outcome, begin, end)
    _dress(rates, waits, outcome, end)


def _faults(rates: Any, waits: Any, outcome: Outcome, begin: float, end: float) -> None:
    free = float("-inf")
    for outage in outcome.outages:
        window = outage.window
        struck = window.begin - begin
        healed, healthy = (min(at - begin, end) for at in (window.healed, window.healthy))
        for axes in (rates, waits):
            axes.axvspan(struck, healed, color=_STRUCK, lw=0, zorder=0)
            axes.axvspan(healed, healthy, color=_MENDING, lw=0, zorder=0)
        # Labels that would lie on each other are moved on.
        at = max(struck, free)
        free = at + end * 0.0135
        rates.text(
            at, 1.03, f"{window.fault}, {outage.seconds:.1f} s", rotation=38, ha="left",
            va="bottom", fontsize=7.5, color=_INK if outage.met else _BAD,
            weight="normal" if outage.met else "bold", transform=rates.get_xaxis_transform(),
        )  # fmt: skip


def _dress(rates: Any, waits: Any, outcome: Outcome, end: float) -> None:
    minutes = FuncFormatter(lambda value, _: f"{int(value) // 60}:{int(value) % 60:02}")
    for axes in (rates, waits):
        axes.set_xlim(0, end)
        axes.grid(color=_PALE, lw=0.7)
        axes.set_axisbelow(True)
        axes.tick_params(length=0, colors=_GREY, labelsize=8)
        axes.xaxis.set_major_formatter(minutes)
        axes.xaxis.set_major_locator(MultipleLocator(_tick(end)))
        for side in axes.spines.values():
            side.set_visible(False)
    rates.tick_params(labelbottom=False)
    rates.set_ylim(0)
    rates.set_ylabel("messages/s", fontsize=8, color=_GREY)
    rates.text(
        -0.04, 1.68, f"{outcome.connect}, seed {outcome.seed}", transform=rates.transAxes,
        weight="bold", fontsize=10.5,
    )  # fmt: skip
    waits.set_yscale("log")
    waits.set_ylim(1, 60_000)
    waits.yaxis.set_major_locator(FixedLocator([1, 10, 100, 1_000, 10_000]))
    waits.yaxis.set_minor_locator(NullLocator())
    waits.yaxis.set_major_formatter(
        FuncFormatter(lambda ms, _: f"{ms / 1e3:g} s" if ms >= 1e3 else f"{ms:g} ms")
    )
    waits.set_ylabel("time taken", fontsize=8, color=_GREY)


def _tick(seconds: float) -> int:
    return next((tick for tick in (10, 30, 60, 120, 300) if seconds / tick <= 16), 600)


def _tables(figure: Figure, outcomes: Sequence[Outcome], top: float, height: float) -> None:
    row = _ROW / height

    def write(x: float, line: float, text: str, **style: Any) -> None:
        figure.text(x, top - line * row, text, va="center", **{"fontsize": 8.5, **style})

    ways = list(dict.fromkeys(outcome.connect for outcome in outcomes))
    columns = [0.14 + 0.16 * n for n in range(len(ways))]
    last = columns[-1] + 0.16
    write(0.02, 0, "Longest time without an acknowledged send", weight="bold", fontsize=10.5)
    for x, way in zip(columns, ways, strict=True):
        write(x, 1, way, color=_GREY)
    write(last, 1, "at most", color=_GREY)
    for line, (fault, found) in enumerate(recoveries(outcomes).items(), 2):
        bound = BOUNDS[fault]
        write(0.02, line, fault)
        for x, way in zip(columns, ways, strict=True):
            outages = found.get(way, [])
            met = all(outage.met for outage in outages)
            write(x, line, spread(outages), color=_GOOD if met else _BAD, weight="bold")
        write(last, line, f"{bound.most:g} s" + (" after the heal" if bound.stops else ""))
    right = max(0.62, last + 0.13)
    write(right, 0, "Rules", weight="bold", fontsize=10.5)
    for line, name in enumerate(outcomes[0].findings, 1):
        number = sum(len(outcome.findings[name]) for outcome in outcomes)
        colour, told = (_BAD, f"broken {number:,} times") if number else (_GOOD, "kept")
        write(right, line, name)
        write(right + 0.19, line, told, color=colour, weight="bold")
    times = [op.t_ok - op.t_invoke for outcome in outcomes for op in outcome.record.acknowledged]
    numbers = {
        name: sum(outcome.counts[name] for outcome in outcomes) for name in outcomes[0].counts
    }
    notes = [
        f"{numbers['sends of unknown outcome']:,} sends of unknown outcome:"
        f" of these {numbers['unknown, and came']:,} messages came",
        f"half of all sends took less than {median(times) * 1e3:.1f} ms" if times else "",
    ]
    for line, note in enumerate(notes, len(outcomes[0].findings) + 1):
        write(right, line + 0.4, note, color=_GREY)
