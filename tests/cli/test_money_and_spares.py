"""`cost:`, `--currency`, `availability:` and `--fail` on real files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from running import Run

pytestmark = pytest.mark.slow  # each runs whole searches through the command line

SCENARIO = """\
version: 1
model: meta-llama/Llama-3.1-8B
engine: vllm
hardware: {accelerators: [l40s]}
workload: {requests: 4 /s, input_tokens: 2000, output_tokens: 200}
targets: {ttft: {p99: 3 s}, itl: {p99: 60 ms}}
deployment:
  mode: disaggregated
  prefill: {accelerator: l40s, replicas: 4}
  decode: {accelerator: l40s, replicas: 3, max_batch: 64}
"""


def write(tmp_path: Path, more: str = "") -> None:
    (tmp_path / "s.yaml").write_text(SCENARIO + more, encoding="utf-8")


def test_a_sheet_prices_the_plan_in_euros(run: Run, tmp_path: Path) -> None:
    (tmp_path / "prices.yaml").write_text("currency: {EUR: 1.25 USD}\nrent: {l40s: 0.80 EUR/h}\n", encoding="utf-8")
    write(tmp_path, "cost: {sheet: prices.yaml}\n")
    result = json.loads(run("evaluate", "s.yaml", "--format", "json").stdout)
    assert result["plan"]["price_basis"] == "sheet"
    assert result["plan"]["usd_per_hour"] == pytest.approx(7 * 1.0)
    assert result["cost"]["usd_per_year"] == pytest.approx(7 * 8760.0)
    assert "prices.yaml" in [file["path"] for file in result["inputs"]["files"]]
    shown = run("evaluate", "s.yaml", "--currency", "EUR=1.25").stdout
    assert "5.60 EUR/h" in shown and "USD" not in shown


def test_duty_makes_tokens_dearer(run: Run, tmp_path: Path) -> None:
    write(tmp_path)
    plain = json.loads(run("evaluate", "s.yaml", "--format", "json").stdout)
    write(tmp_path, "cost: {duty: 50 %}\n")
    half = json.loads(run("evaluate", "s.yaml", "--format", "json").stdout)
    assert half["usd_per_mtok"]["output"] == pytest.approx(2.0 * plain["usd_per_mtok"]["output"])
    assert half["plan"]["usd_per_hour"] == plain["plan"]["usd_per_hour"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("cost: {basis: reserved}", "s.yaml:11:8: cost.basis: l40s has no price on the basis reserved"),
        ("cost: {basis: own}", "l40s has no purchase price in the catalog"),
        ("cost: {basis: sheet}", "wants a sheet with rent"),
        ("cost: {sheet: none.yaml}", "none.yaml: no such file"),
        ("cost: {duty: 120 %}", "is not a share above 0 and up to 100 %"),
        ("availability: {spare: 4}", "4 workers lost at once are more than the prefill pool of 4 can spare"),
        ("availability: {target: 120 %}", "between 0 and 100 %"),
        ("budgets: {watts: 40}", "has no unit"),
    ],
)
def test_what_is_refused_and_where(run: Run, tmp_path: Path, more: str, said: str) -> None:
    write(tmp_path, more + "\n")
    done = run("evaluate", "s.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


@pytest.mark.parametrize("text", ["EUR", "EUR=", "EUR=0", "eur=1.1", "EURO=1.1", "EUR=x", "EUR=inf", "EUR=-1"])
def test_a_wrong_currency_is_2(run: Run, tmp_path: Path, text: str) -> None:
    write(tmp_path)
    done = run("evaluate", "s.yaml", "--currency", text)
    assert done.returncode == 2 and "want three letters and what one costs in USD" in done.stderr


def test_json_names_say_usd(run: Run, tmp_path: Path) -> None:
    write(tmp_path)
    assert run("evaluate", "s.yaml", "--currency", "EUR=1.1", "--format", "json").returncode == 2


def test_spare_workers_in_the_report(run: Run, tmp_path: Path) -> None:
    write(tmp_path, "availability: {spare: 1}\n")
    done = run("evaluate", "s.yaml")
    assert done.returncode == 0
    assert "Spare workers: 2 accelerators" in done.stdout and "with all of them gone: TTFT p99" in done.stdout
    result = json.loads(run("evaluate", "s.yaml", "--format", "json").stdout)["resilience"]
    assert result["spare_workers"]["prefill"]["spare"] == 1 and 0.99 < result["held_fraction"] < 1.0


def test_a_worker_lost_in_simulation(run: Run, tmp_path: Path) -> None:
    write(tmp_path)
    result = json.loads(run("simulate", "s.yaml", "--requests", "400", "--fail", "decode", "--format", "json").stdout)
    assert result["failure"]["pool"] == "decode" and result["failure"]["lost_workers"] == 1
    for text, said in (
        ("decode:3", "at least one must be left"),
        ("colocated", "not a pool"),
        ("decode:x", "decode:2"),
    ):
        done = run("simulate", "s.yaml", "--requests", "100", "--fail", text)
        assert done.returncode == 2 and said in done.stderr
