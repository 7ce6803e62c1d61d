"""Specifications of Vega: axes and marks, without data; the style sheet has the colours.

The page adds the `rows`, and the range from `low` to `high` of the measures of all panels.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import altair as alt
import vl_convert

# The size of a panel's marks in pixels, without axes; the page widens it to its place.
_WIDTH, _HEIGHT, _BULLET_HEIGHT = 290, 103, 42
# The minimum of a logarithmic axis in seconds, at which 0 is drawn.
SHORTEST = 1e-4
_SECONDS = (0.001, 0.01, 0.1, 1, 10, 60, 600, 3_600, 21_600, 86_400, 864_000)
_MORE_SECONDS = (0.003, 0.03, 0.3, 3, 30, 180, 1_800, 43_200, 259_200)
# The ratio of an axis's ends up to which the latter fit, too.
_NARROW = 500
_SHARES = (1e-4, 1e-3, 1e-2, 0.1, 1)
# Expressions of Vega for the texts of ticks: a time of seconds, a moment, a share.
_DURATION = (
    "{0} == 0 ? '0 s' : {0} < 1 ? format({0} * 1000, '~r') + ' ms' : {0} < 60 ?"
    " format({0}, '~r') + ' s' : {0} < 3600 ? format({0} / 60, '~r') + ' min' : {0} < 86400 ?"
    " format({0} / 3600, '~r') + ' h' : format({0} / 86400, '~r') + ({0} == 86400 ? ' day' :"
    " ' days')"
)
_MOMENT = (
    "utcFormat(datum.value, datum.value % 86400000 == 0 ? '%-d %b' : datum.value % 60000 == 0"
    " ? '%H:%M' : '%H:%M:%S')"
)
_UPRIGHT = "M-.14 -1H.14V1H-.14Z"
_ROWS = alt.Chart(alt.NamedData("rows"))
_CONFIG = alt.Config(
    font="inherit", autosize=alt.AutoSizeParams(type="fit-x", contains="padding"),
    view=alt.ViewConfig(stroke=None), mark=alt.MarkConfig(aria=False),
    axis=alt.AxisConfig(
        domain=False, ticks=False, labelColor="var(--muted)", gridColor="var(--line)",
        labelFontSize=10.5,
    ),
    axisX=alt.AxisConfig(grid=False, labelPadding=7),
    axisY=alt.AxisConfig(minExtent=46, maxExtent=46),
)  # fmt: skip
_TOP, _FLOOR = alt.YValue(0), alt.Y2Value(_HEIGHT)


@dataclass(frozen=True, slots=True)
class Times:
    """A time axis in UTC; rows have the beginning of a step in `at`. All in milliseconds."""

    since: int
    until: int
    step: int

    def x(self, column: str) -> alt.X:
        """Return the axis for a column of times."""
        scale = alt.Scale(type="utc", domain=[self.since, self.until], nice=False, clamp=True)
        axis = _axis(
            tickCount=5, labelExpr=_MOMENT, labelFlush=True, labelOverlap=True, labelSeparation=6
        )
        return alt.X(f"{column}:T", scale=scale, axis=axis)

    def middle(self, chart: alt.Chart) -> alt.Chart:
        """Return marks in the middles of steps."""
        return chart.transform_calculate(middle=f"datum.at + {self.step / 2}").encode(
            self.x("middle")
        )

    def line(self, y: alt.Y, colour: str, **style: Any) -> alt.Chart:
        """Return a line through the middles of steps."""
        style = {"strokeWidth": 1.7, "strokeCap": "round"} | style
        return self.middle(_ROWS).mark_line(color=_colour(colour), **style).encode(y)

    def across(self, chart: alt.Chart, share: float) -> alt.Chart:
        """Return bars, or other marks, as wide as a share of their step."""
        margin = (1 - share) / 2 * self.step
        return chart.transform_calculate(
            left=f"datum.at + {margin}", right=f"datum.at + {self.step - margin}"
        ).encode(self.x("left"), alt.X2("right:T"))

    def compiled(self, *layers: alt.Chart) -> dict[str, Any]:
        """Return the specification of layers, and of what the pointer finds: whole steps."""
        return _compiled(*layers, self.across(_steps(), 1).encode(_TOP, _FLOOR))


def latencies(quantiles: Mapping[str, str], times: Times) -> dict[str, Any]:
    """Draw lines of seconds on a logarithmic scale; the last one is on top."""
    scale, axis = _seconds(margin=1.3)
    lines = (
        times.line(alt.Y(f"{quantile}:Q", scale=scale, axis=axis), colour)
        for quantile, colour in quantiles.items()
    )
    alone = _ROWS.transform_filter("datum.alone").transform_fold(list(quantiles))
    dots = times.middle(alone).mark_circle(opacity=1, size=16)
    y = alt.Y("value:Q", scale=scale, axis=axis)
    return times.compiled(*lines, dots.encode(y, _colours("key", quantiles)))


def bars(parts: Mapping[str, str], times: Times, line: str = "") -> dict[str, Any]:
    """Draw numbers as stacked bars, and one as a line over them."""
    columns = list(parts)
    stacked = (
        times.across(_ROWS.transform_fold(columns), 0.84)
        .transform_filter("datum.value > 0")
        .transform_calculate(rank=f"indexof({json.dumps(columns)}, datum.key)")
        .mark_bar(orient="vertical")
        .encode(_counts("value", stack="zero"), _colours("key", parts), alt.Order("rank:Q"))
    )
    return times.compiled(stacked, *([times.line(_counts(line), "ink")] if line else ()))


def backlog(times: Times) -> dict[str, Any]:
    """Draw the number of waiting messages as an area, and its forecast."""
    y = _counts("waiting")
    line = times.line(y, "teal").transform_filter("isValid(datum.waiting)")
    area = line.mark_area(color=_colour("teal"), opacity=0.2)
    ahead = times.line(_counts("ahead"), "muted", strokeDash=[4, 5])
    return times.compiled(area, line, ahead.transform_filter("isValid(datum.ahead)"))


def ages(times: Times) -> dict[str, Any]:
    """Draw an age in seconds; its axis has the round ticks of a time since 1970."""
    scale = alt.Scale(type="utc", domain=_from_zero("max(high, 4) * 1000"), nice=4)
    axis = _axis(tickCount=4, labelExpr=_DURATION.format("(datum.value / 1000)"))
    y = alt.Y("milliseconds:T", scale=scale, axis=axis)
    return times.compiled(
        times.line(y, "violet").transform_calculate(milliseconds="datum.oldest_age_seconds * 1000")
    )


def shares(colours: Mapping[str, str]) -> dict[str, Any]:
    """Draw shares of messages by their receives on a logarithmic scale."""
    x = alt.X("receives:O", scale=alt.Scale(domain=list(colours)), axis=_axis(labelAngle=0))
    scale = alt.Scale(type="log", domain=[1e-5, 1], clamp=True)
    axis = _axis(values=_SHARES, labelExpr="format(datum.value * 100, '~r') + ' %'")
    y = alt.Y("share:Q", scale=scale, axis=axis)
    drawn = _ROWS.mark_bar().encode(x, y, _FLOOR, _colours("receives", colours))
    return _compiled(drawn, _steps().encode(x, _TOP, _FLOOR))


def bullets() -> dict[str, Any]:
    """Draw a bar of each queue's percentiles, with marks for its timeouts."""
    scale, axis = _seconds(margin=2)

    def at(column: str) -> alt.X:
        return alt.X(f"{column}:Q", scale=scale, axis=axis)

    def row(position: float) -> alt.Y:
        return alt.Y("queue:N", sort=None, axis=None, bandPosition=position)

    teal, low = _colour("teal"), row(0.6)
    name = _ROWS.mark_text(align="left", fontSize=13, color=_colour("ink"))
    timeout = _ROWS.mark_point(shape=_UPRIGHT, filled=True, size=320, opacity=1)
    suggested = _ROWS.mark_point(shape="diamond", filled=True, size=90, opacity=1)
    thin = _ROWS.mark_rule(strokeWidth=3, opacity=0.6, color=teal)
    thick = _ROWS.mark_rule(strokeWidth=8, color=teal)
    return _compiled(
        name.encode(alt.XValue(0), row(0.28), alt.Text("queue:N")),
        thin.encode(at("p50"), alt.X2("p99"), low),
        thick.encode(at("p50"), alt.X2("p95"), low),
        timeout.encode(at("timeout"), low, color=alt.value(_colour("ink"))),
        suggested.encode(at("suggested"), low, color=alt.value(_colour("orange"))),
        _steps().encode(alt.XValue(0), alt.X2Value(alt.ExprRef("width")), row(0)),
        height=alt.Step(_BULLET_HEIGHT),
    )


def _seconds(margin: float) -> tuple[alt.Scale, alt.Axis]:
    domain = [alt.ExprRef(f"low / {margin}"), alt.ExprRef(f"high * {margin}")]
    scale = alt.Scale(type="log", domain=domain, nice=False)
    label = _DURATION.format("datum.value")
    few, more = list(_SECONDS), sorted(_SECONDS + _MORE_SECONDS)
    values = alt.ExprRef(f"high / low < {_NARROW} ? {more} : {few}")
    return scale, _axis(values=values, labelExpr=label, labelOverlap="greedy", grid=True)


def _from_zero(high: str) -> list[alt.ExprRef]:
    return [alt.ExprRef("0"), alt.ExprRef(high)]


def _counts(column: str, stack: Literal["zero"] | None = None) -> alt.Y:
    scale = alt.Scale(domain=_from_zero("max(high, 1)"), nice=4)
    axis = _axis(tickCount=4, tickMinStep=1, labelExpr="format(datum.value, '~s')")
    return alt.Y(f"{column}:Q", stack=stack, scale=scale, axis=axis)


def _colours(column: str, parts: Mapping[str, str]) -> alt.Color:
    shown = [_colour(colour) for colour in parts.values()]
    return alt.Color(f"{column}:N", scale=alt.Scale(domain=list(parts), range=shown), legend=None)


def _colour(name: str) -> str:
    return f"var(--{name})"


@cache
def _steps() -> alt.Chart:
    """Return transparent marks with the texts of tooltips, which the page's script finds."""
    return (
        _ROWS.transform_filter("isValid(datum.text)")
        .mark_bar(aria=True, opacity=0, color=_colour("ink"))
        .encode(description="text:N")
        .properties(name="steps")
    )


def _axis(**settings: Any) -> alt.Axis:
    # A title is None for each axis: one of the configuration does not remove it.
    return alt.Axis(title=None, **settings)


def _compiled(*layers: alt.Chart, height: int | alt.Step = _HEIGHT) -> dict[str, Any]:
    # Each method of a chart copies it with all its layers.
    chart = alt.layer(
        *layers, width=_WIDTH, height=height, background="transparent", padding=2,
        params=[alt.param("low", value=0.01).param, alt.param("high", value=1).param],
        config=_CONFIG,
    )  # fmt: skip
    # Altair has validated each part when it was made: the whole again takes a quarter of the time.
    return dict(vl_convert.vegalite_to_vega(chart.to_dict(validate=False)))
