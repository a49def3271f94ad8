"""The site in a real browser: it loads from disk and from the server, filters, sorts, opens a run, turns dark."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from made_up import run_id, write

from spikelm.report.page.serve import open_server
from spikelm.report.page.site import Site

SAMPLE = {"source": "<script>document.title='planted'</script>", "reference": "a", "generated": "b"}
pytestmark = pytest.mark.slow
webdriver = pytest.importorskip("selenium.webdriver")
WebDriverWait = pytest.importorskip("selenium.webdriver.support.wait").WebDriverWait
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if not CHROMIUM or not DRIVER:
        pytest.skip("no chromium with its driver here: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    driver.set_window_size(1280, 900)
    driver.set_script_timeout(30)
    yield driver
    driver.quit()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    write(tmp_path, 1, score=60.0, samples=[SAMPLE])
    write(tmp_path, 2, task="glue/cola", score=9.5, system="<img src=x onerror=document.title='planted'>")
    write(tmp_path, 3, neuron="ann", scale="smoke", source="local", score=70.25)
    broken = write(tmp_path, 4)
    (broken.directory / "result.json").write_text("{")
    Site(tmp_path).build()
    return tmp_path


def shown(browser: Any) -> list[str]:
    """The ids in the list, in its order, of the rows that are not filtered away."""
    rows = "[...document.querySelectorAll('#runs tbody tr')].filter(r => r.offsetParent !== null)"
    return browser.execute_script(f"return {rows}.map(r => r.cells[0].textContent)")


def choose(browser: Any, name: str, value: str) -> None:
    field = browser.find_element("css selector", f"#filters [name={name}]")
    script = "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input', {bubbles: true}))"
    browser.execute_script(script, field, value)


def ids(*numbers: int) -> list[str]:
    return [run_id(number)[:8] for number in numbers]


def no_errors(browser: Any) -> None:
    assert browser.get_log("browser") == []


def test_it_opens_from_disk_filters_sorts_and_opens_a_run(browser: Any, store: Path) -> None:
    browser.get((store / "report" / "index.html").as_uri())
    assert browser.title == "Overview · spikelm"
    assert len(browser.find_elements("css selector", "svg.chart")) == 0, "one neuron a task and scale: no chart yet"
    browser.find_element("link text", "runs").click()
    assert sorted(shown(browser)) == sorted(ids(1, 2, 3, 4))
    choose(browser, "task", "glue/rte")
    assert sorted(shown(browser)) == sorted(ids(1, 3, 4))
    choose(browser, "state", "finished")
    choose(browser, "scale", "mini")
    assert shown(browser) == ids(1)
    assert browser.find_element("id", "shown").text == "1 of 4 runs"
    assert "task=glue%2Frte" in browser.current_url, "a filter can be bookmarked"
    browser.refresh()
    assert shown(browser) == ids(1), "and comes back"
    browser.find_element("css selector", "#filters [type=reset]").click()
    choose(browser, "q", "COLA onerror")
    assert shown(browser) == ids(2)
    choose(browser, "q", "")
    headings = browser.find_elements("css selector", "#runs thead button")
    score = next(heading for heading in headings if heading.text == "score")
    score.click()
    assert shown(browser)[:3] == ids(3, 1, 2), "numbers by size, not by letters"
    score.click()
    assert shown(browser) == ids(2, 1, 3, 4), "what has no score comes last either way"
    browser.find_element("link text", ids(1)[0]).click()
    assert browser.find_element("css selector", "h1").text.startswith("glue/rte")
    assert len(browser.find_elements("css selector", "svg.chart")) == 2
    assert "document.title='planted'" in browser.find_element("css selector", ".sample").text
    assert "planted" not in browser.title
    no_errors(browser)


def test_dark_is_a_click_and_stays(browser: Any, store: Path) -> None:
    browser.get((store / "report" / "index.html").as_uri())
    colour = "return getComputedStyle(document.body).backgroundColor"
    light = browser.execute_script(colour)
    browser.find_element("id", "theme").click()
    dark = browser.execute_script(colour)
    assert light != dark
    browser.get((store / "report" / "run" / f"{run_id(1)}.html").as_uri())
    assert browser.execute_script(colour) == dark
    browser.find_element("id", "theme").click()
    assert browser.execute_script(colour) == light
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [PREFERS_DARK]})
    browser.execute_script("localStorage.clear()")
    browser.refresh()
    assert browser.execute_script(colour) == dark, "as the system prefers, where nothing was chosen"
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    no_errors(browser)


PREFERS_DARK = {"name": "prefers-color-scheme", "value": "dark"}


def test_no_page_is_wider_than_a_narrow_window(browser: Any, store: Path) -> None:
    size = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    for path in sorted((store / "report").rglob("*.html")):
        browser.get(path.as_uri())
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 390, path.name
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    no_errors(browser)


def test_a_served_page_loads_again_when_its_run_goes_on(browser: Any, store: Path) -> None:
    with open_server(store / "report", 0) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        browser.get(f"{server.url}runs.html#state=finished")
        assert len(shown(browser)) == 3
        browser.execute_script("window.mark = 1")
        write(store, 5, score=88.0)
        Site(store, seconds=0.0).build()
        WebDriverWait(browser, 30).until(lambda b: b.execute_script("return window.mark === undefined"))
        assert len(shown(browser)) == 4
        assert ids(5)[0] in shown(browser)
        no_errors(browser)
        server.shutdown()
