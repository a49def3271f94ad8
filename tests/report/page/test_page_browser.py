"""The site in a real browser: lists, comparing, charts, keyboard; from disk and from the server, light and dark."""

from __future__ import annotations

import csv
import itertools
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from made_up import config, run_id, write
from made_up_result import ENVIRONMENT
from made_up_tables import cell, score_and_energy, write_table

from spikelm.report.appearance import look_of
from spikelm.report.page.serve import open_server
from spikelm.report.page.site import Site
from spikelm.store.store import Run

SAMPLE = {"source": "<script>document.title='planted'</script>", "reference": "a", "generated": "b"}
pytestmark = pytest.mark.slow
webdriver = pytest.importorskip("selenium.webdriver")
WebDriverWait = pytest.importorskip("selenium.webdriver.support.wait").WebDriverWait
ActionChains = pytest.importorskip("selenium.webdriver.common.action_chains").ActionChains
Keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
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
    return browser.execute_script(f"return {rows}.map(r => r.querySelector('a').textContent)")


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
    assert not browser.find_elements("css selector", ".plot"), "one system a task and scale: no chart yet"
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
    WebDriverWait(browser, 30).until(lambda b: len(b.find_elements("css selector", "#curves .plot .lines")) == 2)
    assert "document.title='planted'" in browser.find_element("css selector", ".sample").text
    assert "planted" not in browser.title
    no_errors(browser)


def test_dark_is_a_click_and_stays(browser: Any, store: Path) -> None:
    (store / "figures").mkdir()
    for name in ("fig4", "fig5", "fig5-dark"):
        (store / "figures" / f"{name}.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>")
    Site(store, seconds=0.0).build()
    browser.get((store / "report" / "index.html").as_uri())
    colour = "return getComputedStyle(document.body).backgroundColor"
    light = browser.execute_script(colour)
    browser.find_element("id", "theme").click()
    dark = browser.execute_script(colour)
    assert light != dark
    browser.get((store / "report" / "run" / f"{run_id(1)}.html").as_uri())
    assert browser.execute_script(colour) == dark
    browser.get((store / "report" / "figures.html").as_uri())
    picture = "return getComputedStyle(document.querySelector('#fig4 img')).filter"
    assert "invert" in browser.execute_script(picture), "a figure drawn on white turns dark too"
    twins = browser.find_elements("css selector", "#fig5 img")
    assert [twin.is_displayed() for twin in twins] == [False, True], "one with a dark twin shows that"
    browser.find_element("id", "theme").click()
    assert browser.execute_script(colour) == light
    assert browser.execute_script(picture) == "none"
    assert [twin.is_displayed() for twin in twins] == [True, False]
    assert len(browser.find_elements("css selector", ".pictures figure")) == 2
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
    browser.get(f"{(store / 'report' / 'compare.html').as_uri()}#runs={run_id(1)}+{run_id(2)}+{run_id(3)}")
    WebDriverWait(browser, 30).until(lambda b: len(b.find_elements("css selector", ".plot .main-svg")) > 6)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    no_errors(browser)


def numbers(browser: Any, column: str) -> list[str]:
    """The cells of a column of the list that are shown, by its heading."""
    script = """
        const heads = [...document.querySelectorAll('#runs thead th')];
        const at = heads.findIndex(h => h.dataset.key === arguments[0] && h.offsetParent !== null);
        const rows = [...document.querySelectorAll('#runs tbody tr')].filter(r => r.offsetParent !== null);
        return at < 0 ? [] : rows.map(r => r.cells[at].innerText.trim());"""
    return browser.execute_script(script, column)


def test_columns_are_chosen_and_kept_in_the_address(browser: Any, store: Path) -> None:
    browser.get((store / "report" / "runs.html").as_uri())
    assert numbers(browser, "parameters") == []
    browser.find_element("css selector", "#columns summary").click()
    browser.find_element("css selector", "#columns [name=parameters]").click()
    browser.find_element("css selector", "#columns [name=firing]").click()
    assert "318,051" in numbers(browser, "parameters")
    assert numbers(browser, "firing") == []
    browser.refresh()
    assert "318,051" in numbers(browser, "parameters"), "the address keeps them"
    assert numbers(browser, "firing") == []
    no_errors(browser)


def test_what_is_shown_is_downloaded_as_csv(browser: Any, store: Path, tmp_path: Path) -> None:
    folder = tmp_path / "downloads"
    folder.mkdir()
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder)})
    browser.get(f"{(store / 'report' / 'runs.html').as_uri()}#state=finished&sort=-score")
    browser.find_element("id", "csv").click()
    WebDriverWait(browser, 30).until(lambda b: (folder / "runs.csv").is_file())
    with open(folder / "runs.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["run"] for row in rows] == [run_id(3), run_id(1), run_id(2)], "whole ids, in the order that is shown"
    assert [float(row["score"]) for row in rows] == [70.25, 60.0, 9.5]
    assert rows[2]["system"] == "<img src=x onerror=document.title='planted'>"
    no_errors(browser)


def test_two_runs_are_selected_and_compared(browser: Any, store: Path) -> None:
    browser.get((store / "report" / "runs.html").as_uri())
    assert browser.find_element("id", "compare").get_attribute("href") is None
    for number in (1, 3):
        browser.find_element("css selector", f"tr[data-name='{run_id(number)}'] input").click()
    browser.refresh()
    assert browser.find_element("id", "compare").text == "compare 2 runs", "the address keeps the selection"
    browser.find_element("id", "compare").click()
    WebDriverWait(browser, 30).until(lambda b: len(b.find_elements("css selector", ".charts .plot .lines")) == 4)
    said = browser.find_element("id", "comparison").text
    titles = [heading.text for heading in browser.find_elements("css selector", "#comparison h2")]
    assert titles[:4] == ["Scores and measures", "Curves", "Firing rates by site", "Energy by matmul"]
    rows = browser.find_elements("css selector", ".config tr")
    differing = {name: set(values) for name, *values in (row.text.split() for row in rows if row.text)}
    assert differing["scale"] == {"mini", "smoke"}
    assert differing["seed"] == {"1", "3"}
    assert "T" not in differing, "what is the same is folded"
    assert "settings are the same" in said
    assert "document.title='planted'" in said, "a text is a text"
    assert "planted" not in browser.title
    best = browser.find_elements("css selector", ".numbers td.best")
    assert [cell.text for cell in best] == ["70.25"]
    chart = browser.find_element("css selector", ".plot .nsewdrag")
    ActionChains(browser).move_to_element(chart).move_by_offset(4, 2).move_by_offset(4, 2).perform()
    WebDriverWait(browser, 30).until(lambda b: b.find_elements("css selector", ".hoverlayer .legend .legendtext"))
    hovered = browser.find_elements("css selector", ".hoverlayer .legend .legendtext")
    assert len(hovered) == 2, "both runs at the step that is pointed at"
    browser.find_element("css selector", ".chosen a.quiet").click()
    WebDriverWait(browser, 30).until(lambda b: "This is one run" in b.find_element("id", "comparison").text)
    no_errors(browser)


def test_two_systems_of_one_colour_are_told_apart(browser: Any, tmp_path: Path) -> None:
    looks = [look_of(system, 4) for system in ("mine two", "mine three")]
    assert looks[0].colour == looks[1].colour, "there are more systems than colours"
    assert looks[0].marker != looks[1].marker
    write(tmp_path, 1, system="mine two")
    write(tmp_path, 2, system="mine three")
    Site(tmp_path, seconds=0.0).build()
    browser.get(f"{(tmp_path / 'report' / 'compare.html').as_uri()}#runs={run_id(1)}+{run_id(2)}")
    wide = "section > figure .plot .plotly"  # firing rates and energy: the last ones that are drawn
    WebDriverWait(browser, 30).until(lambda b: len(b.find_elements("css selector", wide)) == 2)
    lines = browser.find_elements("css selector", ".charts .lines .js-line")[:2]
    assert len({line.value_of_css_property("stroke") for line in lines}) == 1, "one colour"
    assert len({line.value_of_css_property("stroke-dasharray") for line in lines}) == 2
    first, second = browser.find_elements("css selector", ".barlayer .trace")
    fills = {bar.find_element("css selector", "path").value_of_css_property("fill") for bar in (first, second)}
    assert len(fills) == 2
    no_errors(browser)


def test_a_run_that_is_not_there_is_said(browser: Any, store: Path) -> None:
    browser.get(f"{(store / 'report' / 'compare.html').as_uri()}#runs=0000000000000000+{run_id(1)}")
    WebDriverWait(browser, 30).until(lambda b: "not in this store" in b.find_element("id", "comparison").text)
    assert "0000000000000000" in browser.find_element("css selector", ".bad").text
    assert browser.find_elements("css selector", ".chosen li")
    browser.get_log("browser")  # that the file is missing


def test_the_keyboard_is_enough(browser: Any, store: Path) -> None:
    browser.get((store / "report" / "runs.html").as_uri())
    score = browser.find_element("css selector", "#runs th[data-key=score] button")
    score.send_keys(Keys.ENTER)
    assert shown(browser)[:3] == ids(3, 1, 2)
    browser.find_element("css selector", f"tr[data-name='{run_id(1)}'] input").send_keys(Keys.SPACE)
    browser.find_element("css selector", "#columns summary").send_keys(Keys.ENTER)
    browser.find_element("css selector", "#columns [name=memory]").send_keys(Keys.SPACE)
    assert numbers(browser, "memory")
    browser.find_element("id", "compare").send_keys(Keys.ENTER)
    WebDriverWait(browser, 30).until(lambda b: "compare.html" in b.current_url)
    browser.get((store / "report" / "runs.html").as_uri())
    reached = set()
    for _ in range(20):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        reached.add(browser.switch_to.active_element.accessible_name)
    assert {"to the content", "overview", "runs", "Light or dark", "columns", "download CSV"} <= reached
    no_errors(browser)


def test_a_table_sorts_and_tells_the_runs_of_a_number(browser: Any, store: Path) -> None:
    lines = [
        {"name": name, "system": None, "cells": {"avg": cell(score, text, [run_id(1)])}}
        for name, score, text in (("a", 9.5, "9.5"), ("b", 70.25, "70.3"), ("c", None, ""), ("d", 60.0, "60.0±1.0"))
    ]
    write_table(store, 3, lines, {"avg": "avg"})
    Site(store, seconds=0.0).build()
    browser.get((store / "report" / "tables.html").as_uri())
    names = "return [...document.querySelectorAll('.paper tbody th')].map(h => h.textContent.trim())"
    browser.find_element("css selector", ".paper thead th.n button").click()
    assert browser.execute_script(names) == ["b", "d", "a", "c"], "numbers by size, what is not run last"
    browser.find_element("css selector", ".paper thead th.n button").click()
    assert browser.execute_script(names) == ["a", "d", "b", "c"]
    link = browser.find_element("css selector", ".paper tbody td a")
    browser.execute_script("arguments[0].focus()", link)
    tip = browser.find_element("id", "tip")
    assert tip.is_displayed(), "with the keyboard too"
    assert run_id(1)[:8] in tip.text
    link.send_keys(Keys.ESCAPE)
    assert not tip.is_displayed()
    no_errors(browser)


def test_charts_have_the_colours_of_the_page_and_names_that_do_not_overlap(browser: Any, store: Path) -> None:
    systems = {f"system {n}": ("", 50.0 + n % 4, 0.01 * (1 + n % 5)) for n in range(12)}
    score_and_energy(store, 3, systems)
    Site(store, seconds=0.0).build()
    browser.get((store / "report" / "index.html").as_uri())
    WebDriverWait(browser, 30).until(lambda b: len(b.find_elements("css selector", "#scatter .point")) == 12)
    boxes = """return [...document.querySelectorAll('#scatter .textpoint text, #scatter .xtick text')]
        .filter(text => text.textContent).map(text => text.getBoundingClientRect())
        .map(box => [box.left, box.top, box.right, box.bottom])"""
    places = browser.execute_script(boxes)
    assert len(places) > 8
    for one, other in itertools.combinations(places, 2):
        apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
        assert apart, (one, other)
    colour = "return getComputedStyle(document.querySelector('#scatter .xtick text')).fill"
    point = "return getComputedStyle(document.querySelector('#scatter .point')).fill"
    light = browser.execute_script(colour), browser.execute_script(point)
    browser.find_element("id", "theme").click()
    WebDriverWait(browser, 30).until(lambda b: b.execute_script(colour) != light[0])
    assert browser.execute_script(point) != light[1]
    browser.find_element("id", "theme").click()
    no_errors(browser)


def looked(browser: Any, files: int) -> None:
    """Wait until the page has asked the server once how its files are, and mark it: loaded again it has no mark."""
    asked = "return performance.getEntriesByType('resource').filter(e => e.initiatorType === 'fetch').length"
    WebDriverWait(browser, 30).until(lambda b: b.execute_script(asked) >= files)
    browser.execute_script("window.mark = 1")


def test_a_run_that_goes_on_is_drawn_where_it_is(browser: Any, store: Path) -> None:
    saved = config("pretrain", "lif", "mini", "embedded", 9)
    run = Run(store, store / "pretrain" / f"lif-{run_id(9)[:8]}", run_id(9))
    with run.lock(), open_server(store / "report", 0) as server:
        run.start(saved, ENVIRONMENT)
        for step in range(5):
            run.append_metrics(step, {"train/loss": 5.0 - step})
        Site(store, seconds=0.0).build()
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        points = "return document.querySelector('#curves .plot')?.data?.[0].y.length"
        browser.get(f"{server.url}run/{run_id(9)}.html")
        WebDriverWait(browser, 30).until(lambda b: b.execute_script(points) == 5)
        looked(browser, 2)
        run.append_metrics(5, {"train/loss": 0.5})
        Site(store, seconds=0.0).build()
        WebDriverWait(browser, 30).until(lambda b: b.execute_script(points) == 6)
        assert browser.execute_script("return window.mark") == 1, "the page was not loaded again"
        browser.get(server.url)
        assert "step 5" in browser.find_element("id", "main").text
        looked(browser, 1)
        run.append_metrics(6, {"train/loss": 0.25})
        Site(store, seconds=0.0).build()
        WebDriverWait(browser, 30).until(lambda b: "step 6" in b.find_element("id", "main").text)
        assert browser.execute_script("return window.mark") == 1
        no_errors(browser)
        server.shutdown()


def test_a_served_page_loads_again_when_its_run_goes_on(browser: Any, store: Path) -> None:
    with open_server(store / "report", 0) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        browser.get(f"{server.url}runs.html#state=finished")
        assert len(shown(browser)) == 3
        looked(browser, 1)
        write(store, 5, score=88.0)
        Site(store, seconds=0.0).build()
        WebDriverWait(browser, 30).until(lambda b: b.execute_script("return window.mark === undefined"))
        assert len(shown(browser)) == 4
        assert ids(5)[0] in shown(browser)
        asked = "return performance.getEntriesByType('resource').filter(e => e.name.includes('plotly')).length"
        assert browser.execute_script(asked) == 0, "the list needs no charts"
        browser.get(f"{server.url}run/{run_id(1)}.html")
        browser.get(f"{server.url}run/{run_id(2)}.html")
        sent = "return performance.getEntriesByType('resource').find(e => e.name.includes('plotly')).transferSize"
        assert browser.execute_script(sent) == 0, "the library came once, with the first page"
        no_errors(browser)
        server.shutdown()
