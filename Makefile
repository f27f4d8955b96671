# Two commands on a fresh machine with Python 3.10+ and make:
#   make demo   installs into .venv, reports a bundled trace and says what it wrote
#   make test   everything that CI checks
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
NATIVE := src/warplens/libwarplens_native.so
SAMPLE := samples/kineto/gpt2_train_step.json.gz
DEMO := build/demo

# Where this is set, each process of the tests compiles anew every module that is not compiled ahead.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo runner check test nightly soak lint types arrows native fast unit web page docs golden picture clean

demo: $(VENV)/installed
	@$(BIN)/warplens report $(SAMPLE) -o $(DEMO)/report.html -o $(DEMO)/tables/ -o $(DEMO)/report.xlsx --force
	@echo
	@echo "wrote $(DEMO)/: report.html, $$(ls $(DEMO)/tables | wc -l) tables as CSV in tables/, report.xlsx"
	@echo "open in a browser: $(DEMO)/report.html"
	@echo "next: $(BIN)/warplens --help"

# All that runs beside a program, as one file for nodes where nothing can be installed.
runner:
	@$(PYTHON) tools/make_runner.py build/warplens-run.pyz
	@echo "wrote build/warplens-run.pyz: python warplens-run.pyz profile train.py, … replay run plan.json"

# What to run after every change: what takes long (browsers, compilers, programs that are recorded) is left to `make test`.
check: lint types arrows fast

# While Python's packages are installed the page is checked, and the browsers and compilers of the tests are installed. The
# tests wait for programs a part of their time, in which lint, types and the documentation go on.
test:
	@$(MAKE) --no-print-directory -j8 BEHIND='nice -n 10' page lint types arrows docs unit

# And the tests that are marked as nightly: slow, and rarely the ones that find a fault (a second browser, samples beyond
# a few of each kind, long mutants, ten minutes of files made by grammars, more compilations). Kernels of other projects run where WARPLENS_WORLD has them.
nightly:
	@sh tests/browser/install.sh firefox
	@$(MAKE) --no-print-directory TESTS=--nightly test

# Whole runs beside busy processes: no test may depend on how fast the machine is. `make soak RUNS=2 WORKERS=8`
RUNS ?= 5
soak:
	@sh tests/soak.sh $(RUNS)

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/dev
	$(BEHIND) $(BIN)/mypy

arrows: $(VENV)/dev
	$(BEHIND) $(BIN)/lint-imports

# The native reader, which installing has built already: 11 s less where its sources have not changed since. Without a
# compiler this is a warning, and the tests of it say that they are skipped.
native: $(NATIVE)
$(NATIVE): setup.py $(wildcard native/*.cpp native/*.h) | $(VENV)/dev
	@$(BIN)/python setup.py --quiet build_ext --inplace

# The tests that need neither a browser nor a compiler nor a recorded program.
fast: $(VENV)/dev native
	$(BIN)/python -m pytest --fast -n $$(nproc 2>/dev/null || echo 1) --dist loadfile -q

# One worker more than there are cores: browsers and programs that are waited for leave a third of them idle. A file's
# tests stay together, since what they share (a C++ build, compiled kernels) takes up to a minute to make. What tests
# build with make is none of this file's targets, and does not wait for a turn among them.
WORKERS ?= $$(($$(nproc 2>/dev/null || echo 1) + 1))
unit: $(VENV)/dev $(VENV)/tools native
	MAKEFLAGS= $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -q $(TESTS)

# The page's script and style are built from web/src and committed, so that installing needs no Node. Its types come from
# the records that Python writes; a unit test compares them.
web: web/node_modules/installed $(VENV)/installed
	$(BIN)/python web/make_types.py
	cd web && npm run --silent check && npm run --silent build

# Types, layout, lint and unit tests of the page; fails where the committed files are not what the sources make. Without
# Node that stays unknown, which CI does not accept.
page:
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory web/node_modules/installed && \
	  cd web && npm run --silent check && npm run --silent build -- --check && npm run --silent test && \
	  $(BEHIND) npm run --silent layout && $(BEHIND) npm run --silent lint; \
	else echo "NOT CHECKED: no Node here, so whether the page is built from its sources is unknown" >&2; \
	  test -z "$$WARPLENS_CI"; fi

# Strict: a dead link, an unknown reference or a page outside the navigation fails.
docs: $(VENV)/dev
	NO_MKDOCS_2_WARNING=1 $(BEHIND) $(BIN)/python -m mkdocs build --quiet --strict

golden: $(VENV)/dev
	$(BIN)/python -m pytest -q tests/golden --update-golden

picture: $(VENV)/dev
	$(BIN)/python docs/scripts/make_picture.py
	$(BIN)/python docs/scripts/architecture.py

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/dev: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,dev-torch]'
	@touch $@ $(VENV)/installed

# Where it can, this installs the browser and the compiler that tests need; they say so themselves where one is missing.
$(VENV)/tools: $(VENV)/bin/python
	@sh tests/browser/install.sh
	@sh tests/cli/install.sh
	@touch $@

web/node_modules/installed: web/package.json web/package-lock.json
	cd web && npm ci --silent --no-audit --no-fund
	@touch $@

clean:
	rm -rf $(VENV) build src/warplens/*.so web/node_modules .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
