"""The HTML report in headless Chromium, from disk and without a network.

    /usr/bin/python3 -m pytest tests/report --fixture-program build/src/report/nibble_report_fixture
    /usr/bin/python3 -m pytest tests/report --report-dir DIR      # any report folder

What is drawn is compared with report.json, in which the same program wrote the same numbers: data
sets value by value, positions by this file's own arithmetic, colours by reading the canvas.
"""

import base64
import io
import itertools
import json
import math

import pytest
from report_page import (HOSTILE, NARROW, PROBE, WIDE, Page, contrast, covering_series, drawn_points,
                         expected_data, has_colour, luminance, pixel_of, rgb, series_colour,
                         set_media, settle)


# ---- What the page is


def test_opens_from_disk_without_a_console_message(page):
    assert page.console == []
    assert page.run("return document.readyState") == "complete"


def test_requests_nothing_but_itself(page):
    assert page.requests, "the recording of requests is empty, so it proves nothing"
    others = [url for url in page.requests if url != page.url and not url.startswith("data:")]
    assert others == []


def test_policy_refuses_requests(fresh):
    page = fresh(WIDE, "light")
    outcome = page.driver.execute_async_script(
        "const done = arguments[0];"
        "fetch('http://localhost:9/').then(() => done('went out'), () => 0);"
        "addEventListener('securitypolicyviolation', (e) => done(e.effectiveDirective));")
    assert outcome == "connect-src"


def test_hostile_names_are_text(page, report_folder):
    if HOSTILE not in page.run("return document.querySelector('header').textContent"):
        pytest.skip("only the fixture has hostile names")
    assert page.run("return document.querySelectorAll('script').length") == 5
    assert page.run("return document.querySelectorAll('img').length") == 0
    assert page.run("return document.querySelectorAll('main').length") == 1
    assert HOSTILE in page.run("return document.querySelector('.finding .title').closest('.findings')"
                               ".textContent")


# ---- What the charts hold and where it is drawn


def test_data_sets_equal_the_json(page, report):
    block = json.loads(page.run("return document.getElementById('nibble-charts').textContent"))
    assert block == report["charts"]
    assert set(page.probe["charts"]) == {chart["id"] for chart in report["charts"]}
    for chart in report["charts"]:
        drawn = page.probe["charts"][chart["id"]]["datasets"]
        assert [dataset["label"] for dataset in drawn] == [one["name"] for one in chart["series"]]
        for dataset, series in zip(drawn, chart["series"]):
            assert dataset["data"] == expected_data(chart, series), chart["id"]


def test_points_stand_where_their_values_are(page, report):
    checked = 0
    for chart, index, at, element in drawn_points(page, report):
        probe = page.probe["charts"][chart["id"]]
        x, y, area = probe["x"], probe["y"], probe["area"]
        point = chart["series"][index]["points"][at]
        where = (chart["id"], index, at)
        if chart["kind"] == "xy":
            for axis, scale in (("x", x), ("y", y)):
                assert (scale["type"] == "logarithmic") == chart[axis]["logarithmic"], where
            assert element["x"] == pytest.approx(
                pixel_of(point["x"], x, x["left"], x["right"]), abs=1), where
            assert element["y"] == pytest.approx(
                pixel_of(point["y"], y, y["bottom"], y["top"]), abs=1), where
        else:
            value = expected_data(chart, chart["series"][index])[at]
            start, end = value if isinstance(value, list) else (0, value)
            if not chart["y"]["logarithmic"]:
                # Chart.js draws a bar from its lower end; it is at least 2 pixels long.
                ends = sorted(pixel_of(one, x, x["left"], x["right"]) for one in (start, end))
                assert sorted((element["base"], element["x"])) == pytest.approx(ends, abs=2), where
        assert area["left"] - 1 <= element["x"] <= area["right"] + 1, where
        assert area["top"] - 1 <= element["y"] <= area["bottom"] + 1, where
        checked += 1
    assert checked > 0 or not report["charts"]


def test_pixels_of_the_series_colour_stand_at_its_points(page, report):
    for chart, index, at, element in drawn_points(page, report):
        if has_colour(element["pixels"], series_colour(page, chart, index, at)):
            continue
        assert any(has_colour(element["pixels"], series_colour(page, chart, above, 0))
                   for above in covering_series(page, chart, index, element)), (chart["id"], index, at)


def test_a_hidden_series_leaves_no_colour(fresh, report):
    """The check of pixels above can fail: without its series a point has no colour."""
    page = fresh(WIDE, "light")
    for chart in report["charts"]:
        if chart["kind"] == "bars" and len(chart["series"]) > 1:
            continue  # the bars left move into the gap
        page.run("const {chart} = nibbleCharts[arguments[0]];"
                 "chart.data.datasets.forEach((_, at) => chart.setDatasetVisibility(at, false));"
                 "chart.update();", chart["id"])
    before, page.probe = page.probe, page.run(PROBE)
    compared = 0
    for chart, index, at, _ in drawn_points(page, report):
        if chart["kind"] == "bars" and len(chart["series"]) > 1:
            continue
        element = before["charts"][chart["id"]]["datasets"][index]["elements"][at]
        now = page.probe["charts"][chart["id"]]["datasets"][index]["elements"][at]
        colour = series_colour(page, chart, index, at)
        if now["x"] == element["x"] and now["y"] == element["y"]:
            compared += 1
            assert not has_colour(now["pixels"], colour), (chart["id"], index, at)
    # A linear axis without its series moves; a logarithmic one keeps its place.
    assert compared > 0 or not any(chart["y"]["logarithmic"] for chart in report["charts"])


def test_legend_hides_and_shows_a_series(fresh, report):
    page = fresh(WIDE, "light")
    charts = [chart for chart in report["charts"] if len(chart["series"]) > 1]
    for chart in charts:
        names = page.run(
            "window.legend = [...document.querySelectorAll('figure.chart')].find((one) =>"
            " one.dataset.chart === arguments[0]).querySelectorAll('.legend button');"
            "return [...legend].map((one) => one.textContent);", chart["id"])
        assert names == [series["name"] for series in chart["series"]]
        shown = "return [legend[0].ariaPressed, nibbleCharts[arguments[0]].chart.isDatasetVisible(0)]"
        assert page.run(shown, chart["id"]) == ["true", True]
        page.run("legend[0].click()")
        assert page.run(shown, chart["id"]) == ["false", False]
        page.run("legend[0].click()")
        assert page.run(shown, chart["id"]) == ["true", True]


def test_dashes_and_marks_follow_the_series(page, report):
    for chart in report["charts"]:
        if chart["kind"] != "xy":
            continue
        for dataset, series in zip(page.probe["charts"][chart["id"]]["datasets"], chart["series"]):
            assert bool(dataset["borderDash"]) == series["dashed"]
            assert dataset["showLine"] == (series["mark"] != "points")
            assert (dataset["radius"] > 0) == (series["mark"] != "line")


def test_logarithmic_ticks_are_few_and_round(page, report):
    for chart in report["charts"]:
        for axis in ("x", "y"):
            probe = page.probe["charts"][chart["id"]]
            if chart["kind"] != "xy" or not chart[axis]["logarithmic"]:
                continue
            labels = [label for label in probe[f"{axis}Ticks"] if label]
            assert 2 <= len(labels) <= 13, (chart["id"], axis, labels)
            suffix = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
            for label in labels:
                number = float(label.rstrip("KMBT").replace(",", "")) * suffix.get(label[-1], 1)
                digits = number / 10 ** math.floor(math.log10(number) + 1e-9)
                power_of_two = math.log2(number)
                assert round(digits, 6) in range(1, 10) or power_of_two == round(power_of_two), label


# ---- How the page looks


def test_nothing_is_wider_than_the_viewport(page):
    page.run("for (const one of document.querySelectorAll('details')) one.open = true;")
    settle(page.driver)
    width, client = page.run(
        "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert client == page.width
    assert width <= page.width
    # What may be wider scrolls inside a box of its own.
    too_wide = page.run(
        "return [...document.body.querySelectorAll('*')].filter((one) =>"
        " one.getBoundingClientRect().right > innerWidth + 0.5"
        " && !one.parentElement.closest('.scroll')).map((one) => one.outerHTML.slice(0, 120));")
    assert too_wide == []
    page.run("for (const one of document.querySelectorAll('details')) one.open = false;")
    settle(page.driver)


def test_label_boxes_do_not_touch(page, report):
    drawn = 0
    for chart in report["charts"]:
        probe = page.probe["charts"][chart["id"]]
        boxes = probe["labels"]
        drawn += len(boxes)
        for box in boxes:
            assert 0 <= box["left"] < box["right"] <= probe["width"] + 0.5, (chart["id"], box)
            assert 0 <= box["top"] < box["bottom"] <= probe["height"] + 0.5, (chart["id"], box)
        for a, b in itertools.combinations(boxes, 2):
            apart = (a["right"] <= b["left"] or b["right"] <= a["left"]
                     or a["bottom"] <= b["top"] or b["bottom"] <= a["top"])
            assert apart, (chart["id"], a, b)
    if any(series["label_points"] or chart["kind"] != "xy"
           for chart in report["charts"] for series in chart["series"]):
        assert drawn > 0


def test_no_label_covers_a_point(page, report):
    for chart, index, at, element in drawn_points(page, report):
        if chart["kind"] != "xy":
            continue
        for box in page.probe["charts"][chart["id"]]["labels"]:
            inside = (box["left"] < element["x"] < box["right"]
                      and box["top"] < element["y"] < box["bottom"])
            assert not inside, (chart["id"], index, at, box)


def test_every_bar_shows_its_value_and_its_name(page, report):
    for chart in report["charts"]:
        if chart["kind"] == "xy":
            continue
        bars = sum(len(series["points"]) for series in chart["series"])
        names = len(chart["series"][0]["points"])
        assert len(page.probe["charts"][chart["id"]]["labels"]) == bars + names


def test_label_boxes_hold_the_text_that_is_drawn(page):
    """Ink stands in every label box, so that the boxes are where the labels are."""
    missing = page.run("""
      const text = getComputedStyle(document.documentElement).getPropertyValue('--text').trim();
      const wanted = [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
      const missing = [];
      for (const [id, { chart, labelBoxes }] of Object.entries(nibbleCharts)) {
        const { canvas } = chart;
        const image = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        for (const box of labelBoxes) {
          let ink = 0;
          for (let y = Math.ceil(box.top); y < box.bottom; ++y) {
            for (let x = Math.ceil(box.left); x < box.right; ++x) {
              const at = 4 * (y * image.width + x);
              if (image.data[at + 3] > 128 &&
                  wanted.every((value, part) => Math.abs(image.data[at + part] - value) < 60)) ++ink;
            }
          }
          if (ink < 3) missing.push([id, box.text, ink]);
        }
      }
      return missing;""")
    assert missing == []


def test_colours_are_of_the_scheme_and_stand_out(page):
    colours = page.probe["colours"]
    is_light = luminance(colours["background"]) > 0.5
    assert is_light == (page.scheme == "light")
    assert page.probe["background"] == "rgb(%d, %d, %d)" % rgb(colours["background"])
    for name, colour in colours.items():
        if name == "background":
            continue
        # WCAG 2.1: 4.5:1 for text (1.4.3), 3:1 for what is drawn (1.4.11).
        least = 3 if name.startswith("series") or name == "total" else 4.5
        assert contrast(colour, colours["background"]) >= least, name


def test_every_chart_has_words_and_numbers(page, report):
    for chart in report["charts"]:
        label, caption, rows = page.run(
            "const one = [...document.querySelectorAll('figure.chart')]"
            ".find((figure) => figure.dataset.chart === arguments[0]);"
            "return [one.querySelector('canvas').getAttribute('aria-label'),"
            " one.querySelector('figcaption').textContent,"
            " one.querySelectorAll('details tbody tr').length];", chart["id"])
        assert chart["title"] in label
        assert chart["title"] in caption and chart["caption"] in caption
        points = sum(len(series["points"]) for series in chart["series"])
        in_full = points + len(chart.get("bands", []))
        assert rows == (len(chart["numbers"]["rows"]) if "numbers" in chart else in_full)


def test_screenshot_shows_the_charts_in_the_scheme(page, report):
    """What reaches the screen, not only what the style sheet and the canvases hold."""
    images = pytest.importorskip("PIL.Image", reason="the browser test needs python3-pil")
    for chart in report["charts"][:1]:
        page.run("nibbleCharts[arguments[0]].chart.canvas.scrollIntoView()", chart["id"])
        settle(page.driver)
    shot = page.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
    picture = images.open(io.BytesIO(base64.b64decode(shot["data"]))).convert("RGB")
    assert picture.size[0] == page.width
    assert picture.getpixel((2, 2)) == rgb(page.probe["colours"]["background"])
    seen = {colour for _, colour in picture.getcolors(picture.size[0] * picture.size[1])}
    assert rgb(page.probe["colours"]["series-1"]) in seen or not report["charts"]


# ---- Changes while the page is open


def colours_at_points(page, report):
    return [has_colour(element["pixels"], series_colour(page, chart, index, at))
            for chart, index, at, element in drawn_points(page, report)]


def test_tooltip_names_the_point_above_every_label(fresh, report):
    page = fresh(WIDE, "light")
    for chart in report["charts"]:
        x, y = page.run(
            "const {chart} = nibbleCharts[arguments[0]];"
            "chart.canvas.scrollIntoView({block: 'center'});"
            "const point = chart.getDatasetMeta(0).data[0];"
            "const box = chart.canvas.getBoundingClientRect();"
            "return [box.x + Math.max(point.x - 1, chart.chartArea.left + 1), box.y + point.y - 1];",
            chart["id"])
        page.driver.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": x, "y": y})
        settle(page.driver)
        title, opacity, is_inside, is_on_top = page.run("""
          const { chart } = nibbleCharts[arguments[0]];
          const { title, opacity, x, y, width, height } = chart.tooltip;
          const isInside = x >= 0 && y >= 0 && x + width <= chart.width && y + height <= chart.height;
          const kCorner = 6;  // the box's corners are round
          const read = () => chart.ctx.getImageData(
            x + kCorner, y + kCorner, width - 2 * kCorner, height - 2 * kCorner).data.join();
          const withLabels = read();
          for (const { nibbleSeries } of chart.data.datasets) nibbleSeries.label_points = false;
          chart.draw();
          return [title.join(' '), opacity, isInside, read() === withLabels];""", chart["id"])
        series = chart["series"][0]
        wanted = series["points"][0]["label"] or series["name"]
        # Long names break over lines, and end in an ellipsis beyond four.
        shown = "".join(title.split()).rstrip("\u2026")
        assert shown and "".join(wanted.split()).startswith(shown), (title, wanted)
        assert (opacity, is_inside, is_on_top) == (1, True, True), chart["id"]


def test_charts_follow_a_change_of_scheme(fresh, report):
    page = fresh(WIDE, "light")
    in_light = colours_at_points(page, report)
    light = page.probe["colours"]
    set_media(page.driver, scheme="dark")
    settle(page.driver)
    page.probe = page.run(PROBE)
    assert page.probe["colours"]["series-1"] != light["series-1"]
    # Where lines lie on each other, the edge of one may look like the other in one scheme.
    for (chart, index, at, element), light, dark in zip(
            drawn_points(page, report), in_light, colours_at_points(page, report), strict=True):
        if light != dark:
            assert any(covering_series(page, chart, index, element)), (chart["id"], index, at)


def test_charts_follow_a_change_of_width(fresh, report):
    page = fresh(WIDE, "light")
    set_media(page.driver, NARROW, "light")
    settle(page.driver)
    assert page.run("return document.documentElement.scrollWidth") <= NARROW
    page.probe = page.run(PROBE)
    for chart in report["charts"]:
        assert page.probe["charts"][chart["id"]]["width"] <= NARROW
    test_points_stand_where_their_values_are(page, report)
    test_label_boxes_do_not_touch(page, report)


@pytest.mark.parametrize("scheme", ("light", "dark"))
def test_print_is_light_and_open_and_leaves_the_page_as_it_was(fresh, report, scheme):
    page = fresh(WIDE, scheme)
    page.run("const first = document.querySelector('details'); if (first) first.open = true;")
    states = "return [...document.querySelectorAll('details')].map((one) => one.open)"
    before = page.run(states)
    sizes = {name: (one["width"], one["height"]) for name, one in page.probe["charts"].items()}

    set_media(page.driver, scheme=scheme, media="print")
    settle(page.driver)
    assert all(page.run(states))
    page.probe = page.run(PROBE)
    assert page.probe["background"] == "rgb(255, 255, 255)"
    assert luminance(page.probe["colours"]["text"]) < 0.05
    assert any(colours_at_points(page, report)) or not report["charts"]
    test_pixels_of_the_series_colour_stand_at_its_points(page, report)
    test_label_boxes_do_not_touch(page, report)

    set_media(page.driver, scheme=scheme)
    settle(page.driver)
    assert page.run(states) == before
    after = page.run(PROBE)
    assert {name: (one["width"], one["height"]) for name, one in after["charts"].items()} == sizes
    assert (luminance(after["colours"]["background"]) > 0.5) == (scheme == "light")


def test_prints_to_paper(fresh, report):
    """Printing itself: from a dark, narrow page the charts are light and as wide as the paper."""
    page = fresh(NARROW, "dark")
    page.run(
        "window.printed = null; addEventListener('beforeprint', () => { window.printed ="
        " Object.values(nibbleCharts).map(({ chart }) => [chart.width, chart.canvas.width,"
        "  chart.data.datasets[0].borderColor]); });")
    paper = page.driver.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})
    assert base64.b64decode(paper["data"]).startswith(b"%PDF-")
    printed = page.run("return printed")
    assert len(printed) == len(report["charts"])
    for width, pixels, colour in printed:
        assert width == 640
        assert pixels >= 2 * width  # fine enough for paper
        assert contrast(colour, "#ffffff") >= 3
    assert page.driver.get_log("browser") == []
