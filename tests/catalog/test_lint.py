"""Believability of catalog files: every finding has a file and a line, and the shipped catalog has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.errors import InputError
from planner.files.catalog import shipped_folder
from planner.files.catalog_lint import lint

SOURCE = "source: a datasheet, kind: datasheet, retrieved: 2026-08-22"
SOUND = """\
id: part
vendor: us
memory: {value: 96 GiB, SOURCE}
memory_rate: {value: 4 TB/s, SOURCE}
bf16_dense: {value: 1000 TFLOP/s, SOURCE}
fp8_dense: {value: 2000 TFLOP/s, SOURCE}
scaleup_name: NVLink4+NVSwitch
scaleup_rate: {value: 450 GB/s, SOURCE}
scaleup_domain: {value: 8, SOURCE}
node_accelerators: {value: 8, SOURCE}
nic_rate: {value: 400 Gb/s, SOURCE}
tdp: {value: 700 W, SOURCE}
""".replace("SOURCE", SOURCE)


def _lint(tmp_path: Path, old: str = "", new: str = "", name: str = "part") -> list[str]:
    assert old in SOUND
    text = SOUND.replace(old, new.replace("SOURCE", SOURCE)).replace("id: part", f"id: {name}")
    (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    return [str(fault).replace(f"{tmp_path}/", "") for fault in lint(tmp_path)]


def test_the_shipped_catalog_is_sound() -> None:
    assert lint(shipped_folder()) == ()


def test_a_sound_file(tmp_path: Path) -> None:
    assert _lint(tmp_path) == []


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        ("value: 96 GiB", "value: 96 GB", "part.yaml:3:1: memory: 96 GB reads as 96e9 bytes, but what the box calls"),
        ("value: 4 TB/s", "value: 4 GB/s", "part.yaml:4:1: memory_rate: 4e+09 in base units lies outside"),
        ("value: 4 TB/s", "value: 4 TB", "part.yaml:4:15: memory_rate.value:"),
        (f"{{value: 4 TB/s, {SOURCE}}}", "4 TB/s", "part.yaml:4:1: memory_rate: no source is given for memory_rate"),
        ("{value: 1000 TFLOP/s", "{value: 1000 TFLOP/s, colour: red", 'colour: unknown key'),
        ("value: 2000 TFLOP/s", "value: 4000 TFLOP/s", "fp8_dense: is 4.00 times bf16_dense"),
        ("value: 2000 TFLOP/s", "value: 500 TFLOP/s", "fp8_dense: is below bf16_dense"),
        ("tdp:", "bf16_sparse: {value: 1000 TFLOP/s, SOURCE}\ntdp:", "bf16_dense: is more than half of bf16_sparse"),
        ("tdp:", "fp4_dense: {value: 20000 TFLOP/s, SOURCE}\ntdp:", "fp4_dense: is 10.00 times fp8_dense"),
        ("value: 450 GB/s", "value: 900 GB/s", "part.yaml:8:1: scaleup_rate: 900 GB/s is more than NVLink4+NVSwitch"),
        ("value: 400 Gb/s", "value: 3200 Gb/s", "nic_rate: is more than one accelerator's adapter carries"),
        ("node_accelerators: {value: 8", "node_accelerators: {value: 72", "node_accelerators: 72 accelerators in one"),
        ("tdp:", "all_in_power: {value: 500 W, SOURCE}\ntdp:", "all_in_power: is below tdp"),
        ("tdp:", "prices: {list: 9000 USD/h}\ntdp:", "prices.list: 9000 USD per hour is no price of one accelerator"),
        ("kind: datasheet, retrieved: 2026-08-22}\ntdp", "kind: rumour}\ntdp", '"rumour" is none of datasheet'),
        ("retrieved: 2026-08-22}\ntdp", "retrieved: last week}\ntdp", '"last week" is no date'),
        ("vendor: us", "vendr: us", 'vendr: unknown key; did you mean "vendor"?'),
        ("id: part", "id: part\nid: part", 'key "id" is already on line 1'),
    ],
)  # fmt: skip
def test_findings(old: str, new: str, finding: str, tmp_path: Path) -> None:
    found = _lint(tmp_path, old, new)
    assert any(finding in line for line in found), found
    assert all(line.startswith("part.yaml:") for line in found)
    assert len(found) <= 2


def test_a_generation_does_not_fall_behind(tmp_path: Path) -> None:
    # 4 TB/s and 1,000 TFLOP/s under the name of the B300, after a B200 with 7.7 and 2,250
    found = _lint(tmp_path, name="b300")
    assert [line.partition(": ")[2].split()[0] for line in found] == ["memory:", "memory_rate:", "bf16_dense:"]
    assert "is below that of b200, the generation before" in found[0]


def test_models_of_the_folder_are_read_too(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "a--b.yaml").write_text("id: a/b\narchitecture: x\n", encoding="utf-8")
    found = [str(fault) for fault in lint(tmp_path)]
    assert any("a--b.yaml:1:1: hidden: is missing" in line for line in found)


def test_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file or folder"):
        lint(tmp_path / "none")
