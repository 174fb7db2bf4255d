# Each target makes the environment that it needs; a later one builds on what an earlier one made.
#   make demo    grade the bundled model on bundled images: runs/demo/report.html
#   make test    run all tests
#   make check   ruff, mypy --strict, doctests and the layer test
#   make bench   run every benchmark and write benchmarks/RESULTS.md
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test check bench docs format clean

demo: $(VENV)/.has-demo
	$(BIN)/assay evaluate svm config=demo

test: $(VENV)/.has-dev
	$(BIN)/python -m pytest

check: $(VENV)/.has-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest --doctest-modules src/assay tests/test_layers.py

bench: $(VENV)/.has-dev
	$(BIN)/python benchmarks/run_all.py

docs: $(VENV)/.has-docs
	$(BIN)/mkdocs build --strict

format: $(VENV)/.has-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist site src/*.egg-info

$(VENV)/.has-python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "assay needs Python 3.10 or newer; name one: make PYTHON=python3.11 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	@touch $@

$(VENV)/.has-%: pyproject.toml | $(VENV)/.has-python
	$(BIN)/python -m pip install --quiet --editable '.[$*]'
	@touch $@
