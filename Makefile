# make demo   install and size an example          make test       everything a change must pass
# make lint   style, types, layers                 make test-slow  the longer checks
# make docs   rebuild generated pages              make bench      speed
# make fit    fit the engines to measured runs     make accuracy   docs/accuracy.md from the shipped constants
# make gallery  draw the maps of docs/gallery           make confirm    simulate thirty cells of the map

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# Small matrices: threads of the array library cost more than they bring.
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: demo test test-slow bench lint docs fit accuracy gallery confirm clean

demo: $(VENV)/installed
	@$(BIN)/planner size docs/examples/llama-3.1-70b-azure.yaml

test: lint
	@$(BIN)/python -m pytest -n 2

test-slow: $(VENV)/installed-dev
	@$(BIN)/python -m pytest -n 2 -m slow

bench: $(VENV)/installed-dev
	@$(BIN)/python -m pytest -m '' --benchmark-enable --benchmark-only

lint: $(VENV)/installed-dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

docs: $(VENV)/installed-dev accuracy
	@$(BIN)/python tools/build_cli_docs.py
	@$(BIN)/python tools/build_schemas.py
	@$(BIN)/python tools/build_plots.py
	@$(BIN)/python tools/build_model_docs.py
	@$(BIN)/planner claims --format markdown --out docs/claims.md

gallery: $(VENV)/installed-dev
	@$(BIN)/python tools/build_gallery.py

confirm: $(VENV)/installed-dev
	@$(BIN)/python tools/confirm_map.py

fit: $(VENV)/installed-dev
	@$(BIN)/python tools/fit_engines.py

accuracy: $(VENV)/installed-dev
	@$(BIN)/python tools/build_accuracy.py

clean:
	rm -rf $(VENV)

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "no Python 3.11 or newer found; give one: make PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml | $(BIN)/python
	@$(PIP) -e .
	@touch $@

$(VENV)/installed-dev: pyproject.toml | $(BIN)/python
	@$(PIP) -e '.[dev]'
	@touch $(VENV)/installed $@
