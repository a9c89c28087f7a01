"""A page in headless Chromium reads a stream piece by piece with fetch: from the server's own origin, and from
another one where --allow-origin names it."""
import functools
import http.server
import json
import shutil
import threading

import pytest

from serving import HOST, serving

ASKED = {"messages": [{"role": "user", "content": 'What does "courage" mean?'}], "max_tokens": 64, "seed": 3,
         "temperature": 0.7, "ignore_eos": True}
# What a page does: pieces as the reader hands them over, each with the milliseconds since the request.
FETCH_STREAM = """
const [url, body, done] = arguments;
(async () => {
  const begin = performance.now();
  const response = await fetch(url, {method: 'POST', headers: {'Content-Type': 'application/json'}, body});
  const reader = response.body.getReader(), decoder = new TextDecoder(), pieces = [];
  while (true) {
    const {done: ended, value} = await reader.read();
    if (ended) break;
    pieces.push([performance.now() - begin, decoder.decode(value, {stream: true})]);
  }
  return {status: response.status, type: response.headers.get('content-type'), pieces,
          end: performance.now() - begin};
})().then(done, (error) => done({error: String(error)}));
"""
FETCH_AND_LEAVE = """
const [url, body, done] = arguments;
(async () => {
  const leave = new AbortController();
  const response = await fetch(url, {method: 'POST', headers: {'Content-Type': 'application/json'}, body,
                                     signal: leave.signal});
  await response.body.getReader().read();
  leave.abort();
  return 'left';
})().then(done, (error) => done({error: String(error)}));
"""


class QuietPages(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def other_origin(tmp_path_factory):
    """A web server of its own: another port is another origin."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "page.html").write_text("<!doctype html><title>page</title>")
    pages = http.server.ThreadingHTTPServer((HOST, 0), functools.partial(QuietPages, directory=folder))
    threading.Thread(target=pages.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://{HOST}:{pages.server_port}"
    pages.shutdown()
    pages.server_close()


@pytest.fixture(scope="module")
def server(binary, other_origin):
    with serving(binary, "--allow-origin", other_origin) as running:
        yield running


@pytest.fixture(scope="module")
def browser():
    for program in ("chromium", "chromedriver"):
        if shutil.which(program) is None:
            pytest.skip(f"the browser test needs {program}: install chromium and chromium-driver")
    webdriver = pytest.importorskip("selenium.webdriver", reason="the browser test needs python3-selenium")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-background-networking"):
        options.add_argument(argument)
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    driver.set_script_timeout(60)
    yield driver
    driver.quit()


def read_stream(browser, page, server, **more):
    browser.get(page)
    got = browser.execute_async_script(FETCH_STREAM, f"{server.first['url']}/v1/chat/completions",
                                       json.dumps({**ASKED, "stream": True, **more}))
    assert "error" not in got, got
    return got


def text_of(got):
    lines = "".join(piece for _, piece in got["pieces"]).split("\n")
    data = [line[len("data: "):] for line in lines if line.startswith("data: ")]
    assert data[-1] == "[DONE]"
    return "".join(choice["delta"].get("content", "")
                   for line in data[:-1] for choice in json.loads(line)["choices"])


@pytest.mark.parametrize("own", [True, False], ids=["own origin", "allowed origin"])
def test_a_page_reads_a_stream_piece_by_piece(browser, server, other_origin, own):
    page = f"{server.first['url']}/v1/models" if own else f"{other_origin}/page.html"
    whole = server.post("/v1/chat/completions", **ASKED)["choices"][0]["message"]["content"]
    got = read_stream(browser, page, server)
    assert got["status"] == 200 and got["type"].startswith("text/event-stream")
    assert text_of(got) == whole
    # 64 tokens are as many steps of the engine: a server or a browser that kept them back would give few
    # pieces, or all of them at the end.
    assert len(got["pieces"]) >= 8
    first, last = got["pieces"][0][0], got["pieces"][-1][0]
    assert first < got["end"] / 2 and last > first


def test_a_page_of_another_origin_reads_nothing(binary, browser, other_origin):
    with serving(binary) as closed:
        browser.get(f"{other_origin}/page.html")
        got = browser.execute_async_script(FETCH_STREAM, f"{closed.first['url']}/v1/chat/completions",
                                           json.dumps({**ASKED, "stream": True}))
    assert "Failed to fetch" in got.get("error", ""), got


def test_a_page_that_stops_reading_gives_all_back(browser, server):
    browser.get(f"{server.first['url']}/v1/models")
    asked = {**ASKED, "stream": True, "max_tokens": 900}
    got = browser.execute_async_script(FETCH_AND_LEAVE, f"{server.first['url']}/v1/chat/completions",
                                       json.dumps(asked))
    assert got == "left"
    assert server.comes_to_rest()
    assert server.state()["choices"]["abort"] == 1
