"""Charts from frames are valid Vega-Lite, also without rows, and the specification has what carries meaning."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest

from dashboard.charts import attempts, axes, charts, colours, proportions
from dashboard.data import frames
from dashboard.parts import words

START = datetime(2026, 11, 21, 12, tzinfo=UTC)
SPAN = (START - timedelta(hours=1), START + timedelta(hours=1))
PALETTES = [colours.LIGHT, colours.DARK]


def spec(picture: axes.Picture) -> dict[str, Any]:
    """The chart as Vega-Lite, validated against its schema."""
    made: dict[str, Any] = picture.to_dict()
    return made


def over_time(rows: int = 3) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "time": [START + timedelta(minutes=5 * place) for place in range(rows)],
            "category": ["validation", None, "git"][:rows],
            "errors": [3.0, 1.0, 2.0][:rows],
            "calls": [30.0, 10.0, 20.0][:rows],
            "error_rate": [0.1, 0.2, None][:rows],
            "low": [0.05, 0.1, None][:rows],
            "high": [0.2, 0.4, None][:rows],
            "rated": [30.0, 10.0, 0.0][:rows],
        },
        schema_overrides={"time": pl.Datetime("ns", "UTC")},
    )


RATES = pl.DataFrame(
    {
        "tool": ["apply_diff"],
        "error_rate": [0.5],
        "low": [0.4],
        "high": [0.6],
        "rated": [40.0],
        "label": ["50.0 % of 40"],
    }
)
RATES_OVER_TIME = over_time().select("time", rate=pl.lit("10.0 % of 30"))
STEPS = pl.DataFrame(
    {"at": [1, 2, 1], "recovery_rate": [0.3, 0.5, 0.1], "low": [0.2, 0.4, 0.0], "high": [0.4, 0.6, 0.2],
     "retried": [40.0, 40.0, 20.0], "error_class": [attempts.ALL, attempts.ALL, "TimeoutError"]}
)  # fmt: skip
STOPS = pl.DataFrame({"length": [2.0], "label": ["roo-code stops at 2"]})
LENGTHS = pl.DataFrame(
    {"length": [1.0, 2.0], "hazard": [0.5, 0.6], "low": [0.4, 0.2], "high": [0.6, 0.9], "streaks": [40.0, 10.0]}
)
VALUES = pl.DataFrame({"time": [START], "value": [0.2], "labels": ["{}"]})
SIDES = pl.DataFrame(
    {"name": ["a"], "a": [0.1], "a_low": [0.0], "a_high": [0.2], "b": [0.3], "b_low": [0.2], "b_high": [0.4],
     "verdict": ["worse"], "sentence": ["worse"]}
)  # fmt: skip
CASES = {
    "errors": lambda p: charts.errors_over_time(over_time(), p, SPAN, 300),
    "no errors": lambda p: charts.errors_over_time(over_time(0), p, SPAN, 300),
    "errors beside before": lambda p: charts.errors_over_time(
        over_time(),
        p,
        SPAN,
        300,
        rates=RATES_OVER_TIME,
        before=pl.DataFrame({"time": [START], "previous_errors": [3.0]}),
        deploys=pl.DataFrame({"time": [START, START], "label": ["coder 3.2", "coder 3.3"]}),
    ),
    "paired": lambda p: proportions.paired_bars(
        pl.DataFrame({"name": ["tool = a"], "a_errors": [1.0], "b_errors": [4.0], "sentence": ["s"]}), p
    ),
    "dumbbells": lambda p: proportions.dumbbells(SIDES, p),
    "over-represented": lambda p: proportions.over_share(
        pl.DataFrame({"name": ["Models", "m"], "share": [None, 0.8], "expected": [None, 0.3], "events": [None, 4.0]}),
        p,
    ),
    "scatter": lambda p: proportions.scatter(
        RATES.with_columns(calls=pl.lit(40.0), sessions=pl.lit(3.0), attribution=pl.lit("model")), p
    ),
    "firings": lambda p: charts.firings(
        pl.DataFrame({"name": ["r"], "fired": [START], "until": [START], "state": ["firing"], "summary": ["s"]}),
        p,
        SPAN,
    ),
    "strip": lambda p: charts.storm_strip(pl.DataFrame({"time": [START], "errors": [4.0]}), p, SPAN, 60),
    "calls": lambda p: charts.calls_over_time(over_time(), p, SPAN, 300),
    "rates": lambda p: charts.rate_over_time(over_time(), p, SPAN),
    "shares": lambda p: proportions.share_bar(
        pl.DataFrame({"attribution": ["tool", "model"], "errors": [1.0, 3.0], "label": ["1", "3"]}), p
    ),
    "heat": lambda p: proportions.heat_map(
        pl.DataFrame({"tool": ["a"], "error_class": ["E"], "errors": [12.0], "calls": [20.0], "share": [0.6]}),
        p,
        ["a"],
        ["E"],
    ),
    "dots": lambda p: proportions.dots(RATES, p, "tool", "error_rate"),
    "lengths": lambda p: attempts.streak_lengths(
        pl.DataFrame({"length": ["1"], "state": ["open"], "number": [2.0]}), p
    ),
    "hazard": lambda p: attempts.hazard(LENGTHS, p, STOPS),
    "hazard without a limit": lambda p: attempts.hazard(LENGTHS, p, STOPS.clear()),
    "durations": lambda p: charts.durations(
        pl.DataFrame({"time": [START], "p50_ms": [20.0], "p95_ms": [900.0]}), p, SPAN
    ),
    "limits": lambda p: attempts.limits(
        pl.DataFrame({"mistake_limit": [3], "fate": ["did not recover"], "sessions": [2.0]}), p, 3
    ),
    "curve": lambda p: attempts.recovery_curve(STEPS, p),
    "times": lambda p: attempts.time_to_recovery(STEPS, p),
    "rule": lambda p: charts.value_over_time(
        pl.DataFrame({"time": [START], "value": [0.2], "labels": ["{}"]}), p, SPAN, 0.3, "share"
    ),
    "rule without threshold": lambda p: charts.value_over_time(VALUES, p, SPAN, None, "s"),
}


@pytest.mark.parametrize("palette", PALETTES, ids=["light", "dark"])
@pytest.mark.parametrize("name", CASES)
def test_each_chart_is_valid_vega_lite(name: str, palette: colours.Palette) -> None:
    assert spec(CASES[name](palette))["$schema"].endswith(".json")


@pytest.mark.parametrize("name", CASES)
def test_no_empty_line_is_left_below_a_chart(name: str) -> None:
    made = CASES[name](colours.LIGHT)
    own = made.to_dict().get("padding", {})
    assert axes.tight(made).to_dict()["padding"] == {"bottom": 0} | own  # without one, Streamlit adds 20 pixels


@pytest.mark.parametrize(
    ("calls", "marks"),
    [((24, 182), [50, 100]), ((81, 82), [81, 82]), ((40, 40), [40]), ((9_477, 61_282), [10_000, 20_000, 50_000])],
)
def test_an_axis_of_calls_has_marks_however_near_they_are(calls: tuple[int, int], marks: list[int]) -> None:
    count = len(calls)
    rows = pl.DataFrame({"tool": ["a", "b"], "calls": calls, "error_rate": [0.1] * count, "low": [0.0] * count,
                         "high": [0.2] * count, "sessions": [1] * count, "attribution": ["model"] * count,
                         "label": ["right"] * count})  # fmt: skip
    layers = spec(proportions.scatter(rows, colours.LIGHT))["layer"]
    [axis] = [layer["encoding"]["x"]["axis"] for layer in layers if layer["mark"]["type"] == "circle"]
    assert axis["values"] == marks


@pytest.mark.parametrize("draw", ["durations", "rate"])
def test_a_bucket_that_began_before_the_axis_is_drawn_where_it_begins(draw: str) -> None:
    times = [SPAN[0] - timedelta(hours=1), SPAN[0] + timedelta(hours=1)]
    values = {"p50_ms": 20.0, "p95_ms": 900.0, "error_rate": 0.5, "low": 0.4, "high": 0.6, "rated": 30}
    frame = pl.DataFrame({"time": times, **{name: [value] * 2 for name, value in values.items()}})
    made = spec({"durations": charts.durations, "rate": charts.rate_over_time}[draw](frame, colours.LIGHT, SPAN))
    drawn = [row for rows in made["datasets"].values() for row in rows]
    assert min(datetime.fromisoformat(row["time"]) for row in drawn) == SPAN[0]


def test_durations_are_written_as_on_the_pages_however_long() -> None:
    frame = pl.DataFrame({"time": [START], "p50_ms": [1_667_000.0], "p95_ms": [3_210_000.0]})
    made = spec(charts.durations(frame, colours.LIGHT, SPAN))
    drawn = made["layer"][0]["encoding"]
    marks = drawn["y"]["axis"]["values"]
    assert marks == list(charts.TIMES_MS)
    for power in range(-1, 8):  # the axis ends at powers of ten
        assert sum(10**power <= mark <= 10 ** (power + 1) for mark in marks) >= 2
    assert (
        drawn["y"]["axis"]["labelExpr"] == f"{json.dumps([*charts.TIMES_MS.values()])}[indexof({marks}, datum.value)]"
    )
    for ms, said in charts.TIMES_MS.items():
        number, unit = said.split()
        assert ms == pytest.approx(float(number) * {"ms": 1, "s": 1e3, "min": 6e4, "h": 36e5, "d": 864e5}[unit])
    [rows] = made["datasets"].values()
    assert {row["said"] for row in rows} == {words.duration(1_667_000), words.duration(3_210_000)}
    assert "said" in {each["field"] for each in drawn["tooltip"]}


def test_the_legend_of_tools_stands_clear_of_a_dot_at_100_percent() -> None:
    layers = spec(CASES["scatter"](colours.LIGHT))["layer"]
    [legend] = [layer["encoding"]["color"]["legend"] for layer in layers if layer["mark"]["type"] == "circle"]
    assert legend["offset"] > frames.DOT_PX


@pytest.mark.parametrize("palette", PALETTES, ids=["light", "dark"])
def test_labels_of_deploys_are_read_over_bars(palette: colours.Palette) -> None:
    """Drawn twice: at first with an outline in the colour of the page, which would cover the letters themselves."""
    layers = spec(CASES["errors beside before"](palette))["layer"]
    marks = [layer["mark"] for layer in layers if layer["mark"]["type"] == "text"]
    assert [(mark["stroke"], mark["strokeWidth"]) for mark in marks] == [(palette.paper, 4), (palette.paper, 0)] * 2
    assert [mark | {"strokeWidth": 0} for mark in marks[::2]] == marks[1::2]


def test_a_category_keeps_its_colour_and_the_rest_share_one() -> None:
    made = spec(charts.errors_over_time(over_time(), colours.LIGHT, SPAN, 300))
    scale = made["layer"][0]["encoding"]["color"]["scale"]
    assert dict(zip(scale["domain"], scale["range"], strict=True)) == {
        "validation": colours.LIGHT.category["validation"],
        colours.OTHER: colours.LIGHT.category[colours.OTHER],
    }


@pytest.mark.parametrize(("rates", "said"), [(None, set()), (RATES_OVER_TIME, {"error rate, all categories"})])
def test_a_rate_is_told_of_bars_only_where_it_is_known(rates: pl.DataFrame | None, said: set[str]) -> None:
    made = spec(charts.errors_over_time(over_time(), colours.LIGHT, SPAN, 300, rates=rates))
    titles = {each["title"] for each in made["layer"][0]["encoding"]["tooltip"]}
    assert titles == {"from", "category", "errors"} | said


def test_errors_at_one_place_of_the_axis_are_counted_once() -> None:
    """As where the chosen zone puts its clocks back and the browser's does not."""
    twice = pl.concat([over_time(1), over_time(1)])
    rates = twice.select("time", rate=pl.lit("10 %")).with_row_index("n")
    picture = spec(charts.errors_over_time(twice, colours.LIGHT, SPAN, 900, rates=rates))
    assert sum(row["errors"] for rows in picture["datasets"].values() for row in rows) == twice["errors"].sum()


def test_times_stay_aware_of_their_zone_and_the_clock_has_24_hours() -> None:
    made = spec(charts.errors_over_time(over_time(), colours.LIGHT, SPAN, 300))
    [rows] = made["datasets"].values()
    assert rows[0]["time"].endswith(("Z", "+00:00", "+0000"))
    ends = made["layer"][0]["encoding"]["x"]["scale"]["domain"]
    assert [int(end["expr"]) / 1000 for end in ends] == [moment.timestamp() for moment in SPAN]
    assert "%H:%M" in json.dumps(made)
    assert "%d %b %Y" in made["layer"][0]["encoding"]["x"]["axis"]["labelExpr"]
    assert "%I" not in json.dumps(made)


def test_each_label_set_of_a_rule_has_a_labelled_line() -> None:
    names = [f"service s{number}" for number in range(9)]
    rows = pl.DataFrame({"time": [START] * 9, "value": [float(number) for number in range(9)], "labels": names})
    fired = pl.DataFrame({"start": [START], "end": [START]})
    made = spec(charts.value_over_time(rows, colours.LIGHT, SPAN, 3, "count", fired=fired))
    shade, lines, rule = made["layer"]
    assert (shade["mark"]["type"], rule["mark"]["type"]) == ("rect", "rule")
    assert lines["encoding"]["color"]["scale"]["domain"] == [*names[:2:-1], "3 more"]
    one = spec(charts.value_over_time(rows.head(1), colours.LIGHT, SPAN, 3, "count"))["layer"][0]
    assert one["encoding"]["color"]["legend"] is None


def test_a_share_is_written_as_on_the_pages() -> None:
    made = spec(CASES["rates"](colours.LIGHT))
    assert words.rate(0.5) == f"50.0{made['config']['locale']['number']['percent']}"


@pytest.mark.parametrize(
    ("unit", "axis", "told"), [("count", ",~f", ",.3~f"), ("ms", ",~f", ",.3~f"), ("share", axes.PERCENT, ".1~%")]
)
def test_a_rules_values_have_no_exponents(unit: str, axis: str, told: str) -> None:
    encoding = spec(charts.value_over_time(VALUES, colours.LIGHT, SPAN, None, unit))["layer"][0]["encoding"]
    assert encoding["y"]["axis"]["tickMinStep"] == (1 if unit == "count" else 0)
    assert encoding["y"]["axis"]["format"] == axis
    assert [each["format"] for each in encoding["tooltip"] if each["field"] == "value"] == [told]


RATES = pl.DataFrame(
    {"tool": ["a", "b"], "error_rate": [0.1, 0.9], "low": [0.0, 0.8], "high": [0.2, 1.0], "rated": [50.0, 50.0],
     "label": ["x", "y"]}
)  # fmt: skip


def test_in_a_small_window_names_and_legends_leave_room_for_the_chart() -> None:
    wide, small = (
        spec(proportions.dots(RATES, colours.LIGHT, "tool", "error_rate", small=small)) for small in (False, True)
    )
    assert [sum(layer["mark"]["type"] == "text" for layer in made["layer"]) for made in (wide, small)] == [1, 0]
    limits = [made["layer"][0]["encoding"]["y"]["axis"]["labelLimit"] for made in (wide, small)]
    assert limits == [210, axes.SMALL_NAMES_PX]
    made = spec(charts.errors_over_time(over_time(), colours.LIGHT, SPAN, 300, narrow=True, small=True))
    assert made["layer"][0]["encoding"]["color"]["legend"]["columns"] == 2


def test_where_a_dot_would_contradict_what_was_said_its_row_is_tinted() -> None:
    rows = RATES.with_columns(tint_from=pl.Series([0.0, None]), tint_to=pl.Series([0.2, None]))
    tint, *others = spec(proportions.dots(rows, colours.LIGHT, "tool", "error_rate"))["layer"]
    assert (tint["encoding"]["x"]["field"], tint["encoding"]["x2"]["field"]) == ("tint_from", "tint_to")
    assert len(others) == len(spec(proportions.dots(RATES, colours.LIGHT, "tool", "error_rate"))["layer"])


def test_a_cell_of_few_calls_has_no_colour_but_its_count() -> None:
    few = pl.DataFrame({"tool": ["a"], "error_class": ["E"], "errors": [1.0], "calls": [1.0], "share": [1.0]})
    made = spec(proportions.heat_map(few, colours.LIGHT, ["a"], ["E"]))
    assert [row["certain"] for row in next(iter(made["datasets"].values()))] == [False]
    cells, counts = made["layer"]
    assert cells["encoding"]["fill"]["condition"]["test"] == "datum.certain"
    assert cells["encoding"]["fill"]["value"] == colours.LIGHT.paper
    assert counts["encoding"]["text"]["field"] == "errors"
    assert "transform" not in counts  # every cell has its count


def test_small_shares_of_calls_have_a_colour_of_a_fixed_scale() -> None:
    cells = {"tool": ["a"], "error_class": ["E"], "errors": [13.0], "calls": [100.0], "share": [0.13]}
    made = spec(proportions.heat_map(pl.DataFrame(cells), colours.LIGHT, ["a"], ["E"]))
    scale = made["layer"][0]["encoding"]["fill"]["condition"]["scale"]
    assert (scale["type"], scale["domain"]) == ("sqrt", [0, 1])


def test_categories_are_stacked_in_the_order_of_the_legend() -> None:
    made = spec(charts.errors_over_time(over_time(), colours.LIGHT, SPAN, 300))
    [rows] = made["datasets"].values()
    assert made["layer"][0]["encoding"]["order"] == {"field": "place", "type": "quantitative"}
    assert [row["place"] for row in rows] == [0, len(colours.CATEGORIES), len(colours.CATEGORIES)]


def test_a_rate_without_calls_makes_no_point() -> None:
    made = spec(charts.rate_over_time(over_time(), colours.LIGHT, SPAN))
    [rows] = made["datasets"].values()
    assert len(rows) == 2
    assert [row["certain"] for row in rows] == [True, False]


def contrast(one: str, other: str) -> float:
    """WCAG 2.2 contrast ratio of two colours."""

    def luminance(colour: str) -> float:
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_a_category_has_one_colour_in_both_themes() -> None:
    assert colours.LIGHT.category == colours.DARK.category


@pytest.mark.parametrize("palette", PALETTES, ids=["light", "dark"])
def test_numbers_on_the_heat_map_can_be_read_at_every_share(palette: colours.Palette) -> None:
    below, above, flip = palette.on_ramp
    for percent in range(101):
        shade = "#" + "".join(
            f"{round(low + (high - low) * (percent / 100) ** 0.5):02X}"
            for low, high in ((int(end[0], 16), int(end[1], 16)) for end in
                              zip(*([colour[at : at + 2] for at in (1, 3, 5)] for colour in palette.ramp), strict=True))
        )  # fmt: skip
        assert contrast(above if percent / 100 > flip else below, shade) >= 4.5, percent


@pytest.mark.parametrize("palette", PALETTES, ids=["light", "dark"])
def test_every_mark_stands_out_from_the_page(palette: colours.Palette) -> None:
    for group in (palette.outcome, palette.attribution, palette.category, palette.alert):
        for name, colour in group.items():
            assert contrast(colour, palette.paper) >= 3 - 0.1, name
