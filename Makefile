# Two commands on a fresh machine with Python 3.10+ and make:
#   make demo   installs into .venv, reports a bundled trace and says what it wrote
#   make test   everything that CI checks
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
NATIVE := src/warplens/libwarplens_native.so
SAMPLE := samples/kineto/gpt2_train_step.json.gz
DEMO := build/demo

# Where this is set, every worker would prepare what pytest rewrites of its plugins for itself, and every process compile
# anew whatever module was not compiled ahead: a second for each pytest.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo check test soak lint types arrows rewritten native fast unit rewritten-unit web page docs golden picture clean

demo: $(VENV)/installed
	@$(BIN)/warplens report $(SAMPLE) -o $(DEMO)/report.html -o $(DEMO)/tables/ -o $(DEMO)/report.xlsx --force
	@echo
	@echo "wrote $(DEMO)/: report.html, $$(ls $(DEMO)/tables | wc -l) tables as CSV in tables/, report.xlsx"
	@echo "open in a browser: $(DEMO)/report.html"
	@echo "next: $(BIN)/warplens --help"

# What to run after every change: what takes long (browsers, compilers, programs that are recorded) is left to `make test`.
check: lint types arrows fast

# While Python's packages are installed, on one core and partly waiting for a disk, the page is checked and the browsers
# and compilers of the tests are installed. What checks the code itself needs no PyTorch, and so has the other core while
# that is installed. The tests wait for programs a part of their time, in which it goes on.
test:
	@$(MAKE) --no-print-directory -j8 BEHIND='nice -n 10' page lint types arrows docs rewritten-unit

# Whole runs beside busy processes: no test may depend on how fast the machine is. `make soak RUNS=2 WORKERS=8`
RUNS ?= 5
soak:
	@sh tests/soak.sh $(RUNS)

lint: $(VENV)/checks
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/checks
	$(BEHIND) $(BIN)/mypy

arrows: $(VENV)/checks
	$(BEHIND) $(BIN)/lint-imports

# Leaves the tests as bytecode: each worker of `unit` would otherwise prepare all of them for itself, 15 s of CPU.
rewritten: $(VENV)/checks
	@$(BEHIND) $(BIN)/python tests/rewrite_tests.py || $(MAKE) --no-print-directory collected

collected: $(VENV)/dev
	@found=$$($(BIN)/python -m pytest --collect-only -qq) || { echo "$$found"; exit 1; }

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
	MAKEFLAGS= $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -q

rewritten-unit: rewritten $(VENV)/dev $(VENV)/tools
	@$(MAKE) --no-print-directory unit

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
docs: $(VENV)/checks
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

# Installing makes no bytecode: pip would on one core, and none of this project; tests start hundreds of processes that
# import both. What cannot be compiled, a template say, is no module. Half of all that is installed is never imported.
NOT_IMPORTED := /(tests?|benchmarks)/|/transformers/models/(?!auto|bert|bloom|gpt2|resnet)[^/]+/|$\
  /site-packages/(backrefs|charset_normalizer|fontTools|fsspec|griffe|hypothesis|importlinter|markdown|material|mkdocs)/|$\
  /site-packages/(mypy|mypyc|pip|pydantic|pymdownx|requests|torchgen|typer|urllib3|watchdog)/|$\
  /pygments/lexers/(?!__init__|_mapping|diff|python)|/dask/(array|dataframe)/|/huggingface_hub/(cli|inference)/|$\
  /numpy/(distutils|f2py|polynomial)/|/pandas/plotting/_matplotlib/|/playwright/async_api/|/setuptools/_vendor/|$\
  /sympy/(codegen|combinatorics|holonomic|parsing/autolev|physics|stats|vector)/|$\
  /torch/(_inductor/(codegen/(?!__init__|common)|fx_passes|kernel|template_heuristics)|_vendor/quack)|$\
  /torch/_inductor/(compile_fx|cudagraph_trees|graph|ir|lowering|pattern_matcher|scheduler|select_algorithm)[.]py|$\
  /torch/(ao/(ns|pruning|quantization/fx)|distributed/(_tools|pipelining)|utils/hipify)/|$\
  /torch/testing/_internal/(?!__init__|common_dtype|logging_tensor|distributed/(__init__|fake_pg))|$\
  /transformers/(cli|exporters|pipelines)/
$(VENV)/checks: $(VENV)/bin/python pyproject.toml
	$(BIN)/python tests/install_packages.py --editable '.[dev]'
	@touch $@ $(VENV)/installed

# Only what the extra adds: with the project named again, its native reader would be compiled again, 11 s.
ADDED := import importlib.metadata as m, re; $\
  print(*(re.sub("(;| and) extra == .*", "", each) for each in m.requires("warplens") if "dev-torch" in each), sep="\n")
$(VENV)/dev: $(VENV)/checks
	@$(BIN)/python -c '$(ADDED)' >$(VENV)/dev-torch.txt
	$(BIN)/python tests/install_packages.py --requirement $(VENV)/dev-torch.txt
	@$(BIN)/python -m compileall -q -j 0 -x '$(NOT_IMPORTED)' $(VENV)/lib src >/dev/null 2>&1 || true
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
