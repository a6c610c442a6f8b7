"""Pages as browsers and their readers take them: valid, legible, the same on a phone, a screen and paper."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import browser
import hand_gates
import hand_plans
import html5lib
import pytest
import small_scenarios

import planner
from planner import sizing
from planner.render import simulation, trace
from planner.render.html import to_html, to_html_fragment
from planner.render.page import DARK, LIGHT
from planner.review.document import document
from planner.review.simulation import simulation_document
from planner.simulation.simulate import Setting, simulate

ROOT = Path(__file__).parents[2]
TRACE = ROOT / "docs" / "examples" / "data" / "mooncake_blocks.jsonl"


def simulated(fail: str = "") -> str:
    asked = small_scenarios.scenario(deployment=small_scenarios.SPLIT, requests_per_s=5.0)
    setting = Setting(requests=60, seed=3, fail=fail)
    found = simulate(asked, small_scenarios.SPLIT, setting)
    return simulation.to_html(simulation_document(sizing.evaluate(asked), found, setting))


PAGES: Mapping[str, Callable[[], str]] = {
    "disaggregated": lambda: to_html(document(hand_plans.DISAGGREGATED)),
    "colocated": lambda: to_html(document(hand_plans.COLOCATED)),
    "infeasible": lambda: to_html(document(hand_plans.INFEASIBLE)),
    "nothing_fits": lambda: to_html(document(hand_plans.NOTHING_FITS)),
    "gate": lambda: to_html(hand_gates.gate()),
    "simulation": simulated,
    "lost_worker": lambda: simulated("decode"),
    "trace": lambda: trace.to_html(planner.load_trace(TRACE).to_dict()),
}

EXAMPLE = "docs/examples/qwen3-32b-fp8.yaml"
COMMANDS = {  # pages with pictures, as commands write them
    "size": ("size", EXAMPLE),
    "nearest": ("size", "docs/examples/infeasible.yaml"),
    "check": ("check", EXAMPLE, "docs/examples/infeasible.yaml"),
    "map": ("map", EXAMPLE, "--x", "input_tokens=500..8000:4", "--y", "rate=2/s..50/s:3"),
}


@cache
def page_of(name: str) -> str:
    """A page of PAGES, or what a command writes."""
    if name in PAGES:
        return PAGES[name]()
    call = [sys.executable, "-m", "planner", *COMMANDS[name], "--format", "html"]
    return subprocess.run(call, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=False).stdout


# ------------------------------------------------------------------------------------------------------------- the text


@pytest.mark.parametrize("name", [*PAGES, *(pytest.param(name, marks=pytest.mark.slow) for name in COMMANDS)])
def test_page_is_valid_html5(name: str) -> None:
    html5lib.HTMLParser(strict=True).parse(page_of(name))
    assert page_of(name).isascii()  # whatever encoding the stream has
    ids = re.findall(r' id="([^"]+)"', page_of(name))
    named = {word for words in re.findall(r'labelledby="([^"]+)"', page_of(name)) for word in words.split()}
    assert len(set(ids)) == len(ids) and named <= set(ids)


def test_fragment_is_valid_inside_another_page() -> None:
    inside = to_html_fragment(document(hand_plans.COLOCATED))
    html5lib.HTMLParser(strict=True).parseFragment(inside, container="div")


def luminance(color: str) -> float:
    """Relative luminance of #rrggbb as WCAG 2.2 defines it."""
    parts = [int(color[at : at + 2], 16) / 255.0 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_of_known_pairs() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)  # the grey that just fails AA


@pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])
def test_text_and_bars_have_contrast_enough(colors: Mapping[str, str]) -> None:
    for name in ("ink", "quiet", "pass", "risk", "fail", "bar"):
        assert contrast(colors[name], colors["paper"]) >= 4.5, name  # AA of text
    for name in ("bar", "ink", "fail"):
        assert contrast(colors[name], colors["line"]) >= 3.0, name  # AA of what is no text, on its track
    assert LIGHT.keys() == DARK.keys()


def test_every_color_of_the_style_is_one_of_the_pairs() -> None:
    style = re.findall(r"<style>(.*?)</style>", PAGES["colocated"](), re.DOTALL)[0]
    assert set(re.findall(r"#[0-9a-f]{3,8}\b", style)) == {*LIGHT.values(), *DARK.values()}


# ---------------------------------------------------------------------------------------------------------- the browser

OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
CUT = """[...document.querySelectorAll('.wide')].filter(e => e.scrollWidth > e.clientWidth + 1)
         .map(e => e.getAttribute('aria-label'))"""
NAMELESS = """[...document.querySelectorAll('svg:not(:has(svg)), img, [role=region]')]
              .filter(e => !(e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.alt)).length"""
UNFOLD = "document.querySelectorAll('details').forEach(e => { e.open = true; })"
FOCUSABLE = "document.querySelectorAll('summary, a[href], [tabindex=\"0\"]').length"
PAPER = "getComputedStyle(document.body).backgroundColor"


@pytest.fixture(scope="module")
def tab() -> Iterator[browser.Tab]:
    program = browser.found()
    if program is None:
        pytest.skip("no Chromium: none on the path, and CHROMIUM names none")
    with browser.opened(program) as opened:
        yield opened


@pytest.mark.slow
@pytest.mark.parametrize(("name", "width"), [*product((*PAGES, *COMMANDS), (360, 1280))])
def test_page_fits_its_window_and_asks_for_nothing(tab: browser.Tab, tmp_path: Path, name: str, width: int) -> None:
    path = tmp_path / "page.html"
    path.write_text(page_of(name), encoding="utf-8")
    tab.open(path, width)
    assert tab.value("innerWidth") == width
    tab.value(UNFOLD)
    assert tab.value(OVERFLOW) <= 0
    assert tab.value(CUT) == [], "tables that a reader has to move sideways"
    assert tab.value(NAMELESS) == 0
    assert tab.value(FOCUSABLE) > 0 or name == "map"
    assert tab.complaints() == []
    assert tab.requests() == [path.as_uri()]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*PAGES, *COMMANDS])
def test_page_prints_dark_on_light_with_everything_open(tab: browser.Tab, tmp_path: Path, name: str) -> None:
    path = tmp_path / "page.html"
    path.write_text(page_of(name), encoding="utf-8")
    dark: list[dict[str, Any]] = [{"name": "prefers-color-scheme", "value": "dark"}]
    tab.open(path, 680)  # A4 at 96 dots per inch, less its margins
    tab.call("Emulation.setEmulatedMedia", media="screen", features=dark)
    assert tab.value(PAPER) == "rgb(20, 23, 26)"
    tab.call("Emulation.setEmulatedMedia", media="print", features=dark)
    assert tab.value(PAPER) == "rgb(255, 255, 255)"
    assert tab.value(OVERFLOW) <= 0
    pdf = tab.pdf()
    tab.call("Emulation.setEmulatedMedia", media="", features=[])
    assert pdf.startswith(b"%PDF") and re.search(rb"/Type\s*/Page\b", pdf)
