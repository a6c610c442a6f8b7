# For type checkers: `__init__.py` reaches these only when asked for.
from planner.api import evaluate as evaluate
from planner.api import load_scenario as load_scenario
from planner.api import load_trace as load_trace
from planner.api import simulate as simulate
from planner.api import size as size

__version__: str
