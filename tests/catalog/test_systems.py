"""Nodes, racks and slices: their parts are in the catalog, and a card in one has that one's network share."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.errors import InputError
from planner.files.catalog import Catalog
from planner.files.systems import inside

CATALOG = Catalog()
SYSTEMS = [CATALOG.system(name) for name in CATALOG.system_ids()]

NODE = """\
id: lab
accelerator: h200-sxm
accelerators: 8
nic: connectx-7
nics: 2
scaleup: nvlink4
scaleup_domain: 8
"""


def lab(folder: Path, text: str) -> Catalog:
    (folder / "systems").mkdir(parents=True, exist_ok=True)
    (folder / "systems" / "lab.yaml").write_text(text)
    return Catalog((folder,))


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.id)
def test_a_shipped_system_agrees_with_its_accelerator(system) -> None:  # type: ignore[no-untyped-def]
    card = CATALOG.accelerator(system.accelerator)
    assert system.node_accelerators == card.node_accelerators
    assert system.scaleup_domain <= max(card.scaleup_domain, 1)
    assert (system.status == "announced") == (card.status == "announced")
    if system.power_watts and card.all_in_watts:
        assert system.accelerators * card.tdp_watts < system.power_watts < 1.2 * system.accelerators * card.all_in_watts
    if system.id != "aws-p4d":  # whose cards share 400 Gb/s
        assert system.nic_bytes_per_s == pytest.approx(card.nic_bytes_per_s)


def test_a_card_in_a_system_has_its_share_of_the_adapters(tmp_path: Path) -> None:
    # two 50 GB/s adapters for eight cards
    card = lab(tmp_path, NODE).accelerator("lab")
    assert (card.id, card.nic_bytes_per_s, card.node_accelerators) == ("h200-sxm", 12.5e9, 8)
    assert card.notes.startswith("in lab")
    assert card.sha256 != CATALOG.accelerator("h200-sxm").sha256
    assert CATALOG.accelerator("aws-p4d").nic_bytes_per_s == 6.25e9


def test_what_a_system_does_not_say_stays_as_the_card_has_it(tmp_path: Path) -> None:
    system = lab(tmp_path, "id: lab\naccelerator: l4\naccelerators: 4\n").system("lab")
    assert inside(system, CATALOG.accelerator("l4")).nic_bytes_per_s == CATALOG.accelerator("l4").nic_bytes_per_s


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("h200-sxm", "h200-smx", 'accelerator: "h200-smx" is not in the catalog; did you mean "h200-sxm"?'),
        ("connectx-7", "connectx-11", 'nic: "connectx-11" is not in the catalog; did you mean "connectx-'),
        ("nics: 2\n", "", "nics: is missing"),
        ("accelerators: 8", "accelerators: 8\nhosts: 3", "hosts: 3 hosts do not divide 8 accelerators"),
        ("nics: 2", "nic_count: 2", "nic_count: unknown key; did you mean"),
        ("id: lab", "id: lab\nlevel: pod", 'level: "pod" is not possible; want one of: node, rack, slice'),
    ],
)
def test_a_fault_of_a_system_file_names_its_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        lab(tmp_path, NODE.replace(old, new)).system("lab")
    assert any(message in str(fault) and "lab.yaml:" in str(fault) for fault in caught.value.faults), caught.value
