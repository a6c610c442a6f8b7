"""The guide to budgets in CI, walked through on a scratch repository, and the ready-made pipelines run as shell."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.slow  # each runs whole searches

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guides" / "ci.md"
EXPECTED = {"planner check plans/chat.yaml --baseline plans/baseline.json --format json --out result.json": 1}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """An empty repository with `planner` on the path."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, module in (("planner", "planner"), ("python", "")):
        script = tools / name
        command = f'{sys.executable} -m {module} "$@"' if module else "exit 0  # nothing to install"
        script.write_text(f"#!/bin/sh\nexport PYTHONPATH='{ROOT}'\n{command}\n")
        script.chmod(script.stat().st_mode | stat.S_IEXEC)
    work = tmp_path / "work"
    work.mkdir()
    done = run(work, "git init --quiet --initial-branch main && git commit --quiet --allow-empty --message begin")
    assert done.returncode == 0, done.stderr
    return work


def run(work: Path, script: str, **more: str) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
    who = {f"GIT_{part}_{what}": "a" for part in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    env = {**kept, **who, "PATH": f"{work.parent / 'bin'}:{os.environ['PATH']}", "HOME": str(work.parent), **more}
    return subprocess.run(
        ["bash", "-c", script], cwd=work, env=env, capture_output=True, text=True, encoding="utf-8", timeout=120
    )


def blocks() -> list[str]:
    return re.findall(r"^```sh\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def walk(work: Path, upto: str = "") -> dict[str, str]:
    """Run the guide's commands in order, up to the block that begins with `upto`; what each prints."""
    printed = {}
    for block in blocks():
        if upto and block.startswith(upto):
            break
        for command in [block] if "<<" in block else block.strip().splitlines():
            done = run(work, command)
            assert done.returncode == EXPECTED.get(command, 0), f"{command}\n{done.stdout}\n{done.stderr}"
            printed[command] = done.stdout
    return printed


def test_the_guide(repository: Path) -> None:
    printed = walk(repository)
    diff = printed["planner diff plans/baseline.json result.json"]
    assert "workload.requests_per_s  20.0 /s  60.0 /s" in diff and "plan.accelerators" in diff
    assert "all by workload.requests_per_s" in diff
    comment = (repository / "comment.md").read_text(encoding="utf-8")
    assert comment.startswith("<!-- planner:") and "usd_per_hour" in comment.replace("\\", "")
    assert "cost.usd_per_hour" in printed["planner explain result.json usd_per_hour"]
    assert json.loads((repository / "planner.sarif").read_text())["version"] == "2.1.0"
    assert (repository / "junit.xml").read_text().count("<failure") >= 1
    assert "::error" in printed["planner render result.json --format github"]
    unchanged = printed["planner diff plans/baseline.json result.json --exit-code"]
    assert unchanged.startswith("UNCHANGED")


def steps(path: Path, **inputs: str) -> list[tuple[str, dict[str, str]]]:
    """Script and environment of every step of the action, its expressions filled in."""
    action = yaml.safe_load(path.read_text(encoding="utf-8"))
    values = {name: str(one["default"]) for name, one in action["inputs"].items()} | inputs

    def filled(text: str) -> str:
        return re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda match: values[match[1]], text)

    return [
        (filled(step["run"]), {name: filled(text) for name, text in step.get("env", {}).items()})
        for step in action["runs"]["steps"]
    ]


@pytest.mark.parametrize("base", ["", "main"])
def test_the_action(repository: Path, base: str) -> None:
    walk(repository, "planner check")
    summary = repository / "summary.md"
    codes, printed = [], ""
    for script, env in steps(ROOT / "docs" / "ci" / "action.yml", base=base):
        done = run(repository, script, GITHUB_STEP_SUMMARY=str(summary), **env)
        codes.append(done.returncode)
        printed += done.stdout
        assert "Traceback" not in done.stderr, done.stderr
    assert codes == [0, 0, 0, 0, 0, 1], printed
    assert "::error file=plans/chat.yaml,line=" in printed
    comment = (repository / "planner-comment.md").read_text(encoding="utf-8")
    assert "planner check" in comment and "planner diff" in comment
    assert "planner check" in summary.read_text(encoding="utf-8")


def test_the_gitlab_job(repository: Path) -> None:
    walk(repository, "planner check")
    job: dict[str, Any] = yaml.safe_load((ROOT / "docs" / "ci" / "gitlab.yml").read_text(encoding="utf-8"))["planner"]
    script = "\n".join(["set -e", *job["before_script"], *job["script"]])
    done = run(repository, script, **{name: str(value) for name, value in job["variables"].items()})
    assert done.returncode == 1, done.stderr
    assert "<failure" in (repository / job["artifacts"]["reports"]["junit"]).read_text()
    assert all((repository / name).is_file() for name in job["artifacts"]["paths"])
    assert "REGRESSED" in done.stdout or "CHANGED" in done.stdout


# ---------------------------------------------------------------------------------------------------------- pre-commit


def hooks() -> dict[str, dict[str, Any]]:
    found = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    return {hook["id"]: hook for hook in found}


def test_hooks_match_the_files_they_are_for() -> None:
    catalog, check = (re.compile(hooks()[name]["files"]) for name in ("planner-catalog", "planner-check"))
    assert catalog.search("hardware/accelerators/h100-sxm.yaml") and catalog.search("my/models/a--b.yml")
    assert not catalog.search("docs/examples/heterogeneous.yaml") and not catalog.search("hardware/readme.md")
    assert check.search("plans/chat.yaml") and check.search("a/b.scenario.yaml") and not check.search("k8s/app.yaml")
    assert all(hook["language"] == "python" and hook["name"] and hook["entry"] for hook in hooks().values())


def test_the_catalog_hook(repository: Path) -> None:
    shutil.copytree(ROOT / "hardware" / "accelerators", repository / "catalog" / "accelerators")
    good, bad = (f"catalog/accelerators/{name}.yaml" for name in ("h100-sxm", "h200-sxm"))
    (repository / bad).write_text((repository / bad).read_text().replace("memory:", "memry:", 1))
    entry = hooks()["planner-catalog"]["entry"]
    assert run(repository, f"{entry} {good}").returncode == 0
    done = run(repository, f"{entry} {good} {bad}")
    assert done.returncode == 1 and f"{bad}:" in done.stdout and 'did you mean "memory"' in done.stdout
    assert run(repository, f"{entry} {good} absent.yaml").returncode == 2


def test_the_check_hook(repository: Path) -> None:
    assert run(repository, "mkdir plans && planner init -o plans/chat.yaml").returncode == 0
    entry = hooks()["planner-check"]["entry"]
    done = run(repository, f"{entry} plans/chat.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    text = (repository / "plans" / "chat.yaml").read_text()
    (repository / "plans" / "chat.yaml").write_text(text.replace("p99: 5 s", "p99: 3 ms"))
    assert run(repository, f"{entry} plans/chat.yaml").returncode == 1
    (repository / "plans" / "chat.yaml").write_text(text.replace("p99: 5 s", "p99: 3"))
    assert run(repository, f"{entry} plans/chat.yaml").returncode == 2
