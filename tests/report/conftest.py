"""Options and fixtures of the browser tests: which report, which browser."""

import itertools
import json
import os
import pathlib
import shutil
import subprocess

import pytest
from report_page import NARROW, WIDE, Page, set_media


def pytest_addoption(parser):
    parser.addoption("--report-dir", help="a folder that `nibble ... --report` wrote")
    parser.addoption("--fixture-program", help="nibble_report_fixture, which writes such a folder")


@pytest.fixture(scope="session")
def report_folder(request, tmp_path_factory):
    folder = request.config.getoption("--report-dir")
    if folder:
        return pathlib.Path(folder).resolve()
    program = request.config.getoption("--fixture-program")
    if not program and "NIBBLE_BUILD_DIR" in os.environ:  # as tests/CMakeLists.txt starts all tests
        program = os.path.join(os.environ["NIBBLE_BUILD_DIR"], "src", "report",
                               "nibble_report_fixture")
    if not program:
        raise pytest.UsageError("give --report-dir DIR or --fixture-program nibble_report_fixture")
    folder = tmp_path_factory.mktemp("report")
    subprocess.run([program, str(folder)], check=True)
    return folder


@pytest.fixture(scope="session")
def report(report_folder):
    return json.loads((report_folder / "report.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def driver():
    for program in ("chromium", "chromedriver"):
        if shutil.which(program) is None:
            pytest.skip(f"the browser test needs {program}: install chromium and chromium-driver")
    webdriver = pytest.importorskip(
        "selenium.webdriver", reason="the browser test needs python3-selenium")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars",
                     "--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    browser.execute_cdp_cmd("Network.enable", {})
    browser.execute_cdp_cmd("Network.emulateNetworkConditions", {
        "offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0})
    yield browser
    browser.quit()


@pytest.fixture(scope="module", params=itertools.product((WIDE, NARROW), ("light", "dark")),
                ids=lambda pair: f"{pair[0]}-{pair[1]}")
def page(request, driver, report_folder):
    return Page(driver, report_folder, *request.param)


@pytest.fixture
def fresh(driver, report_folder):
    """Opens the report anew, for tests that change it."""
    yield lambda width, scheme: Page(driver, report_folder, width, scheme)
    set_media(driver)
