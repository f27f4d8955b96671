# Two commands on a fresh machine with Python 3.10+ and make:
#   make demo   installs into .venv, reports a bundled trace and says what it wrote
#   make test   everything that CI checks
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SAMPLE := samples/kineto/gpt2_train_step.json.gz
DEMO := build/demo

.PHONY: demo test lint types arrows unit golden picture clean

demo: $(VENV)/installed
	@$(BIN)/warplens report $(SAMPLE) -o $(DEMO)/tables/ -o $(DEMO)/report.xlsx -o $(DEMO)/report.md --force
	@echo
	@echo "wrote $(DEMO)/: $$(ls $(DEMO)/tables | wc -l) tables as CSV in tables/, report.xlsx, report.md"
	@echo "next: $(BIN)/warplens --help"

test: lint types arrows unit

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/dev
	$(BIN)/mypy

arrows: $(VENV)/dev
	$(BIN)/lint-imports

unit: $(VENV)/dev
	$(BIN)/python -m pytest -n auto -q

golden: $(VENV)/dev
	$(BIN)/python -m pytest -q tests/golden --update-golden

picture: $(VENV)/dev
	$(BIN)/python docs/make_picture.py

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/dev: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,dev-torch]'
	@touch $@ $(VENV)/installed

clean:
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
