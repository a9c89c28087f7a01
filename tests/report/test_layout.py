"""How the page lies on a screen and on paper, and what it says to who cannot see it."""

import base64
import re

import pytest
from report_page import NARROW, PROBE, WIDE, Page, pixel_of, rgb, set_media, settle

# The boxes of what stands on the page by itself: neither holds the other, so they may not meet.
BOXES = """
  const kinds = 'h1, h2, h3, p, li, dt, dd, canvas, .legend, table, summary, footer';
  const boxes = [];
  for (const one of document.querySelectorAll(kinds)) {
    if (!one.checkVisibility()) continue;
    // A table that is wider than its box is cut there.
    const { left, right, top, bottom } = (one.closest('.scroll') ?? one).getBoundingClientRect();
    if (right - left > 1 && bottom - top > 1) {
      boxes.push({ left, right, top: top + scrollY, bottom: bottom + scrollY, text:
        `${one.tagName} ${one.textContent.slice(0, 40)}`, at: boxes.length, one });
    }
  }
  const meets = [];
  boxes.sort((a, b) => a.top - b.top);
  boxes.forEach((a, at) => {
    for (let next = at + 1; next < boxes.length && boxes[next].top < a.bottom - 0.5; ++next) {
      const b = boxes[next];
      if (a.one.contains(b.one) || b.one.contains(a.one)) continue;
      if (a.left < b.right - 0.5 && b.left < a.right - 0.5) meets.push([a.text, b.text]);
    }
  });
  return [boxes.length, meets];"""


def overlapping(page):
    count, meets = page.run(BOXES)
    assert count > 3
    return meets


def test_nothing_overlaps(page):
    assert overlapping(page) == []
    page.run("for (const one of document.querySelectorAll('details')) one.open = true;")
    settle(page.driver)
    try:
        assert overlapping(page) == []
    finally:
        page.run("for (const one of document.querySelectorAll('details')) one.open = false;")
        settle(page.driver)


def test_the_check_of_overlaps_can_fail(fresh):
    page = fresh(WIDE, "light")
    page.run("document.querySelector('h2').style.marginBottom = '-4rem';")
    assert overlapping(page) != []


def test_headings_are_not_cut(page):
    cut = page.run("return [...document.querySelectorAll('h1, h2, h3, figcaption, dd, li, p')]"
                   ".filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.textContent)")
    assert cut == []


# What a number counts, or a unit in brackets or behind a comma.
UNIT_AT_END = re.compile(r"\(.+\)$|, [^ ]+$|, [^ ]+ [^ ]+$")
BARE = re.compile(r"^(ms|s|W|J/token|tok/s|TFLOPS|GFLOPS|GB/s|requests|% .*|tok/s .*|.*[Rr]equests.*|sequences)$")


def test_every_axis_has_a_title_with_its_unit(report):
    for chart in report["charts"]:
        for axis in ("x", "y") if chart["kind"] == "xy" else ("y",):
            title = chart[axis]["title"]
            assert UNIT_AT_END.search(title) or BARE.match(title), (chart["id"], axis, title)


def test_axis_titles_are_drawn_and_fit(page, report):
    for chart in report["charts"]:
        titles = page.run("""
          const { chart } = nibbleCharts[arguments[0]];
          chart.ctx.font = `12px ${getComputedStyle(document.body).fontFamily}`;
          return Object.values(chart.scales).filter((scale) => scale.options.title?.display)
            .map((scale) => [scale.options.title.text, chart.ctx.measureText(scale.options.title.text).width,
                             scale.isHorizontal() ? chart.width : chart.height]);""", chart["id"])
        assert {text for text, _, _ in titles} >= {chart["y"]["title"]}
        for text, width, room in titles:
            assert width <= room, (chart["id"], text)


def numbers_of(text):
    return [float(one.replace(",", "")) for one in re.findall(r"-?\d[\d,]*\.?\d*(?:e-?\d+)?", text)]


def is_told(value, told):
    return any(abs(one - value) <= 2e-3 * abs(value) + 1e-9 for one in told)


def test_every_canvas_tells_what_is_to_be_seen_with_its_numbers(page, report):
    canvases = page.run("return [...document.querySelectorAll('canvas')].map((one) =>"
                        "[one.getAttribute('role'), one.getAttribute('aria-label')])")
    assert len(canvases) == len(report["charts"])
    most = 12  # series, bars or bands that anybody listens to
    for chart, (role, label) in zip(report["charts"], canvases):
        assert role == "img"
        assert label.startswith(chart["title"].rstrip("."))
        assert chart["caption"] in label
        told = numbers_of(label)
        for series in chart["series"][:most]:
            if chart["kind"] == "xy":
                assert f"{series['name']}: " in label
                values = [one["y"] for one in series["points"] if one["y"] is not None]
                wanted = [min(values), max(values)] if values else []
            else:
                wanted = [one["y"] for one in series["points"][:most]]
            assert all(is_told(value, told) for value in wanted), (chart["id"], series["name"])
        for band in chart.get("bands", [])[:most]:
            assert band["label"] in label
            assert is_told(band["from"], told) and is_told(band["to"], told)


# ---- Bands behind the data


def test_bands_stand_where_their_seconds_are(page, report):
    band_colour = rgb(page.run(
        "return getComputedStyle(document.documentElement).getPropertyValue('--band').trim()"))
    for chart in report["charts"]:
        probe = page.probe["charts"][chart["id"]]
        bands = chart.get("bands", [])
        assert len(probe["bands"]) == len(bands)
        x = probe["x"]
        for band, drawn in zip(bands, probe["bands"]):
            for edge, end in (("left", "from"), ("right", "to")):
                wanted = min(max(pixel_of(band[end], x, x["left"], x["right"]), x["left"]), x["right"])
                assert drawn[edge] == pytest.approx(wanted, abs=1), (chart["id"], band)
            assert drawn["text"] in (band["label"], band["label"].split(" ")[0], "")
        # A line or the grid may pass a single one; not the ground of most.
        shaded = sum(tuple(drawn["pixel"][:3]) == band_colour for drawn in probe["bands"])
        assert shaded * 2 >= len(bands), (chart["id"], shaded)
        for gap in probe["gaps"]:
            assert gap["width"] < 4 or tuple(gap["pixel"]) != band_colour + (255,), chart["id"]


def test_bands_are_named_where_there_is_room_and_told_in_the_table(page, report):
    for chart in report["charts"]:
        bands = chart.get("bands", [])
        if not bands:
            continue
        for drawn in page.probe["charts"][chart["id"]]["bands"]:
            assert drawn["text"] or drawn["right"] - drawn["left"] < 200, (chart["id"], drawn)
        table = page.run(
            "return [...document.querySelectorAll('figure.chart')].find((one) =>"
            " one.dataset.chart === arguments[0]).querySelector('details').textContent", chart["id"])
        assert all(band["label"] in table for band in bands), chart["id"]


def test_charts_over_one_clock_line_up(page, report):
    small = [chart for chart in report["charts"] if chart.get("small")]
    for chart in small:
        first, here = (page.probe["charts"][one["id"]] for one in (small[0], chart))
        assert chart["x"] == small[0]["x"]
        for side in ("left", "right"):
            assert here["area"][side] == pytest.approx(first["area"][side], abs=1), chart["id"]
        assert (here["x"]["min"], here["x"]["max"]) == (chart["x"]["min"], chart["x"]["max"])


def test_bands_follow_a_change_of_width(fresh, report):
    page = fresh(WIDE, "light")
    set_media(page.driver, NARROW, "light")
    settle(page.driver)
    page.probe = page.run(PROBE)
    test_bands_stand_where_their_seconds_are(page, report)
    test_charts_over_one_clock_line_up(page, report)


# ---- On paper

PAGE_HEIGHT = 11 * 96 - 2 * 15 / 25.4 * 96  # px between the margins of Letter, the shorter paper


def test_no_chart_is_cut_in_two_by_a_page(fresh, report):
    """What may not break and is lower than a page stands on one page."""
    page = fresh(WIDE, "light")
    set_media(page.driver, scheme="light", media="print")
    settle(page.driver)
    boxes = page.run(
        "return [...document.querySelectorAll('figure.chart')].map((one) => {"
        " const keep = one.querySelector('canvas').closest('.keep');"
        " return [getComputedStyle(keep).breakInside, keep.getBoundingClientRect().height,"
        "  keep.contains(one.querySelector('figcaption'))]; })")
    set_media(page.driver, scheme="light")
    settle(page.driver)
    assert len(boxes) == len(report["charts"])
    for chart, (rule, height, has_caption) in zip(report["charts"], boxes):
        assert (rule, has_caption) == ("avoid", True), chart["id"]
        assert height < PAGE_HEIGHT, chart["id"]


def test_the_printed_file_has_pages_and_not_too_many(fresh, report):
    page = fresh(NARROW, "dark")
    data = base64.b64decode(page.driver.print_page())
    assert data.startswith(b"%PDF-") and data.rstrip().endswith(b"%%EOF")
    pages = len(re.findall(rb"/Type\s*/Page\b(?!s)", data))
    charts, rows = page.run("return [document.querySelectorAll('canvas').length,"
                            " document.querySelectorAll('tr, li, article').length]")
    # Two charts a page, and 20 rows of the rest: those of long tables take two lines.
    assert 1 <= pages <= 3 + charts / 2 + rows / 20, (pages, charts, rows)
    fonts = re.findall(rb"/Type\s*/Font\b", data)
    assert fonts, "the file holds no text"
