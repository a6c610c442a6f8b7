"""The result document as JSON: base units, committed field names, the same bytes for the same plan."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def to_json(document: Mapping[str, Any]) -> str:
    """Return the document as indented ASCII-safe JSON with a final newline.

    Raises ValueError when a number is not finite: JSON has no infinity, and a reader would fail far from here.
    """
    return json.dumps(document, allow_nan=False, indent=2) + "\n"
