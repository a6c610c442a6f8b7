"""The compressed traces of tests/data, unpacked where a reader can find them."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

DATA = Path(__file__).parents[1] / "data" / "traces"


def unpacked(name: str, folder: Path) -> Path:
    """A file of `expected_reuse.csv`, or the folder of sessions, written below `folder`."""
    if name.startswith("agentic_weka"):
        sessions = folder / "agentic_weka"
        if not sessions.exists():
            sessions.mkdir()
            for file, document in json.loads(lzma.decompress((DATA / "agent_sessions.json.xz").read_bytes())).items():
                (sessions / file).write_text(json.dumps(document))
        return folder / name if "/" in name else sessions
    if name == "mooncake_arxiv_head.jsonl":
        return DATA / "mooncake_head.jsonl"
    target = folder / name
    if not target.exists():
        target.write_bytes(lzma.decompress((DATA / f"{name}.xz").read_bytes()))
    return target
