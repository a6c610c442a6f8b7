"""The result document as YAML: the same names and values as the JSON, for people who keep results beside scenarios."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_/.-]*(?: [A-Za-z0-9_/.-]+)*", re.ASCII)
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Text is quoted wherever some reader of YAML would take it for a number, a truth value or nothing."""

    def ignore_aliases(self, _: Any) -> bool:
        return True


def _text(dumper: Any, text: str) -> Any:
    plain = _PLAIN.fullmatch(text) and text.lower() not in _WORDS
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain else '"')


_Dumper.add_representer(str, _text)


def to_yaml(document: Mapping[str, Any]) -> str:
    """Return the document as block YAML in its own order, readable by YAML 1.1 and 1.2 alike."""
    return str(yaml.dump(dict(document), Dumper=_Dumper, sort_keys=False, width=1000, allow_unicode=False))
