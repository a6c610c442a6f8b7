"""What all records share: the array type, and notes to the reader of a result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Note:
    level: Literal["info", "caution", "warning"]
    text: str
