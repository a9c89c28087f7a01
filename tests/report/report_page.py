"""The report as the browser shows it, and what report.json says must be there."""

import itertools
import json
import math
import pathlib

PROBE = (pathlib.Path(__file__).parent / "probe.js").read_text(encoding="utf-8")
WIDE, NARROW = 1280, 390
HOSTILE = "<script>alert(1)</script>"


def set_media(driver, width=None, scheme=None, media=""):
    if width is not None:
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500})
    features = [{"name": "prefers-color-scheme", "value": scheme}] if scheme else []
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})


def settle(driver):
    """Waits until the page has had two frames: resizing and redrawing are done then."""
    driver.execute_async_script(
        "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()));")


class Page:
    """The report as it stands at one width and in one colour scheme."""

    def __init__(self, driver, folder, width, scheme):
        self.driver, self.width, self.scheme = driver, width, scheme
        self.url = (folder / "report.html").as_uri()
        set_media(driver, width, scheme)
        driver.get_log("browser")
        driver.get_log("performance")
        driver.get(self.url)
        settle(driver)
        self.console = driver.get_log("browser")
        self.requests = [
            message["params"]["request"]["url"]
            for message in (json.loads(entry["message"])["message"]
                            for entry in driver.get_log("performance"))
            if message["method"] == "Network.requestWillBeSent"]
        self.probe = driver.execute_script(PROBE)

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)


def rgb(colour):
    return tuple(int(colour[at:at + 2], 16) for at in (1, 3, 5))


def has_colour(pixels, colour, tolerance=24):
    """Whether one of the pixels, drawn opaquely, is this colour."""
    return any(pixel[3] > 200 and max(abs(a - b) for a, b in zip(pixel, rgb(colour))) <= tolerance
               for pixel in pixels)


def luminance(colour):  # WCAG 2.1, relative luminance
    parts = [value / 255 for value in rgb(colour)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def expected_data(chart, series):
    """What Chart.js must hold for a series of report.json."""
    points = series["points"]
    if chart["kind"] == "xy":
        return [{"x": point["x"], "y": point["y"]} for point in points]
    if chart["kind"] == "bars":
        return [point["y"] for point in points]
    ends = list(itertools.accumulate(point["y"] for point in points[:-1]))
    starts = [0] + ends[:-1]
    return [list(pair) for pair in zip(starts, ends)] + [[0, points[-1]["y"]]]


def pixel_of(value, scale, first, last):
    """Where a value must stand on an axis that runs from pixel `first` to pixel `last`."""
    of = math.log10 if scale["type"] == "logarithmic" else float
    low, high = of(scale["min"]), of(scale["max"])
    return first + (of(value) - low) / (high - low) * (last - first)


def is_drawable(point, chart):
    """Whether a point has a place: numbers, positive where the axis is logarithmic."""
    axes = ("x", "y") if chart["kind"] == "xy" else ("y",)
    return all(point[axis] is not None and (point[axis] > 0 or not chart[axis]["logarithmic"])
               for axis in axes)


def drawn_points(page, report):
    """(chart, series index, point, element) of every point that must be seen."""
    for chart in report["charts"]:
        datasets = page.probe["charts"][chart["id"]]["datasets"]
        for index, series in enumerate(chart["series"]):
            for at, point in enumerate(series["points"]):
                if is_drawable(point, chart):
                    yield chart, index, at, datasets[index]["elements"][at]


def series_colour(page, chart, index, at):
    is_total = chart["kind"] == "waterfall" and at == len(chart["series"][index]["points"]) - 1
    return page.probe["colours"]["total" if is_total else f"series-{index % 8 + 1}"]


def distance_to_segment(point, a, b):
    (x, y), (ax, ay), (bx, by) = point, a, b
    length = (bx - ax) ** 2 + (by - ay) ** 2
    along = 0 if length == 0 else ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / length
    along = min(1, max(0, along))
    return math.dist(point, (ax + along * (bx - ax), ay + along * (by - ay)))


def covering_series(page, chart, index, element):
    """Series drawn above, whose markers or lines pass over an element of this one: those with
    markers are above plain lines, and earlier ones above later ones."""
    def depth(of):
        return (chart["series"][of]["mark"] == "line", of)

    here = (element["x"], element["y"])
    for above in range(len(chart["series"])):
        if depth(above) >= depth(index):
            continue
        dataset = page.probe["charts"][chart["id"]]["datasets"][above]
        spots = [(one["x"], one["y"]) for one in dataset["elements"]
                 if one["x"] is not None and one["y"] is not None]
        segments = zip(spots, spots[1:]) if dataset["showLine"] else zip(spots, spots)
        if any(distance_to_segment(here, a, b) < 8 for a, b in segments):
            yield above
