"""A gate as SARIF 2.1.0: what fails or is at risk, at the line of the file that asks for it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from planner.render.checks import sentence, subject

Document = Mapping[str, Any]
Locate = Callable[[str], str]

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
INPUT_RULE = "scenario"
LEVELS = {"fail": "error", "at risk": "warning"}


def to_sarif(document: Document, locate: Locate = str) -> str:
    """Return the log of a gate document.

    Parameters
    ----------
    locate : callable
        From a path as it was given to one from the root of the repository.

    Notes
    -----
    A rule is what is limited (``ttft.p99``), so its id stays when the limit moves. The fingerprint is of scenario and
    rule: an alert stays the same one over commits, whatever line it stands on. Checks that pass are left out.
    """
    findings = [*_lines(document, locate), *_faults(document, locate)]
    rules = {finding["ruleId"]: finding.pop("rule") for finding in findings}
    order = {name: index for index, name in enumerate(rules)}
    results = [{**finding, "ruleIndex": order[finding["ruleId"]]} for finding in findings]
    driver = {"name": "planner", "version": document["tool"]["version"], "rules": list(rules.values())}
    run = {
        "tool": {"driver": driver},
        "automationDetails": {"id": "planner/check/"},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": not document["broken"]}],
        "results": results,
    }
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2, allow_nan=False) + "\n"


def _lines(document: Document, locate: Locate) -> Iterator[dict[str, Any]]:
    for result in document["results"]:
        for line in result["checks"]:
            if line["verdict"] not in LEVELS:
                continue
            level = "error" if document["strict"] else LEVELS[line["verdict"]]
            files = result["inputs"]["files"]
            path = line["path"] or (files[0]["path"] if files else "")
            place = (path, line["line"], line["column"])
            name = f"{line['name']} {line['comparison']}"
            rule = _rule(line["name"], f"Limit of {subject(line)}", LEVELS[line["verdict"]])
            yield _finding(rule, level, sentence(line), place, name, locate)


def _faults(document: Document, locate: Locate) -> Iterator[dict[str, Any]]:
    rule = _rule(INPUT_RULE, "A scenario that can be read", "error")
    for broken in document["broken"]:
        for fault in broken["faults"]:
            place = (fault["path"] or broken["scenario"], fault["line"], fault["column"])
            yield _finding(dict(rule), "error", fault["text"], place, f"{INPUT_RULE} {fault['text']}", locate)


def _rule(name: str, text: str, level: str) -> dict[str, Any]:
    return {"id": name, "shortDescription": {"text": text}, "defaultConfiguration": {"level": level}}


def _finding(
    rule: dict[str, Any],
    level: str,
    text: str,
    place: tuple[str, int | None, int | None],
    name: str,
    locate: Locate,
) -> dict[str, Any]:
    path, line, column = place
    where: dict[str, Any] = {"artifactLocation": _artifact(locate(path))}
    if line:
        where["region"] = {"startLine": line, **({"startColumn": column} if column else {})}
    print_of = hashlib.sha256(f"{locate(path)}\n{name}".encode("utf-8", "backslashreplace")).hexdigest()
    return {
        "ruleId": rule["id"],
        "rule": rule,
        "level": level,
        "message": {"text": text},
        "locations": [{"physicalLocation": where}],
        "partialFingerprints": {"plannerCheck/v1": print_of},
    }


def _artifact(path: str) -> dict[str, str]:
    """A file of the repository by its path from the root; any other by its own address."""
    address = quote(path.encode("utf-8", "surrogateescape"))
    if path.startswith("/"):
        return {"uri": f"file://{address}"}
    return {"uri": address, "uriBaseId": "%SRCROOT%"}
