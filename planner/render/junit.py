"""A gate as JUnit XML: a suite per scenario, a case per check. Read by Jenkins, GitLab, Azure and most others."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from planner.render.checks import sentence
from planner.render.gate import fault_text
from planner.review.result import scenario_name

Document = Mapping[str, Any]
Locate = Callable[[str], str]

_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # in XML 1.0, even escaped


def to_junit(document: Document, locate: Locate = str) -> str:
    """Return the report of a gate document. A check that fails is a failure, a scenario that cannot be read an error.

    At risk is a passed case whose output says so; a failure where the gate is strict. Times are 0: nothing is measured.
    """
    root = Element("testsuites", name="planner check")
    for result in document["results"]:
        _suite(root, result, document["strict"], locate)
    for broken in document["broken"]:
        _broken_suite(root, broken)
    _count(root, list(root))
    root.set("time", "0")
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'


def _suite(root: Element, result: Document, strict: bool, locate: Locate) -> None:
    name = _legal(scenario_name(result))
    suite = SubElement(root, "testsuite", name=name)
    for line in result["checks"]:
        case = SubElement(suite, "testcase", classname=name, name=_legal(line["name"]), time="0")
        said = _legal(sentence(line))
        place = _legal(f"{locate(line['path'])}:{line['line']}:{line['column']}" if line["line"] else name)
        if line["verdict"] == "fail" or (strict and line["verdict"] == "at risk"):
            SubElement(case, "failure", message=said, type=line["verdict"]).text = f"{place}: {_legal(line['text'])}"
        elif line["verdict"] == "at risk":
            SubElement(case, "system-out").text = f"at risk: {said}"
    _close(suite)


def _broken_suite(root: Element, broken: Document) -> None:
    name = _legal(broken["scenario"])
    suite = SubElement(root, "testsuite", name=name)
    case = SubElement(suite, "testcase", classname=name, name="scenario", time="0")
    said = [_legal(fault_text(fault)) for fault in broken["faults"]]
    SubElement(case, "error", message=said[0] if said else "cannot be read", type="input").text = "\n".join(said)
    _close(suite)


def _close(suite: Element) -> None:
    suite.set("tests", str(len(suite.findall("testcase"))))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("errors", str(len(suite.findall("testcase/error"))))
    suite.set("skipped", "0")
    suite.set("time", "0")


def _count(root: Element, suites: list[Element]) -> None:
    for name in ("tests", "failures", "errors"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in suites)))


def _legal(text: str) -> str:
    return _ILLEGAL.sub("?", str(text))
