# Everything a newcomer needs:  make demo   and   make test.  Both set up .venv from a bare Python >= 3.11.
SHELL := /bin/bash
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
  if $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then echo $$p; break; fi; done)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
export TASKVEIL_DATA ?= $(realpath ../shared/data)
export FLWR_TELEMETRY_ENABLED := 0
export FLWR_DISABLE_UPDATE_CHECK := 1
# Tests start hundreds of Python processes, and rewrite what they assert: both are read from compiled files the second time.
unexport PYTHONDONTWRITEBYTECODE
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
# A first answer in less than a minute: data, mathematics, bounds, certificates, citations, and examples that fit and certify.
QUICK := tests/unit/losses tests/unit/structures tests/unit/calculators tests/unit/tasks tests/unit/test_names.py \
  tests/unit/test_errors_and_registry.py tests/unit/privacy/test_bounds.py tests/unit/privacy/test_contributions.py \
  tests/unit/privacy/test_release.py tests/unit/privacy/test_certificate.py tests/contract/test_losses.py \
  tests/contract/test_structures.py tests/contract/test_references.py tests/property/test_clipping.py \
  tests/property/test_theory.py tests/integration/test_api.py

.PHONY: setup demo quick test lint bench docs faults faults-network mutants audit test-engine test-network wheel reproduce-quick test-all clean

$(BIN)/python:
	@if [ -z "$(PYTHON)" ]; then \
	  echo "taskveil needs Python 3.11 or newer; none of python3.11, python3.12, python3.13, python3 is. Install one (Debian: apt-get install python3.11 python3.11-venv) or run: make PYTHON=/path/to/python"; exit 4; fi
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "$(PYTHON) has no venv module. On Debian or Ubuntu: apt-get install python3-venv"; exit 4; }
	@echo "Creating $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)

# Two stamps in one environment: what the demo needs, and what the tests need on top.
$(VENV)/.stamp-demo: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing taskveil and the report (first time: a minute or two)"
	@$(PIP) -e '.[report]'
	@touch $@

$(VENV)/.stamp-test: $(VENV)/.stamp-demo
	@echo "Installing what the tests need (first time: a few minutes)"
	@$(PIP) -e '.[nn,federated,dask,postgres,report,docs,dev]'
	@bash tools/find_chromium.sh install || true
	@touch $@

setup: $(VENV)/.stamp-test

demo: $(VENV)/.stamp-demo
	@$(BIN)/taskveil demo --out demo-report

quick: $(VENV)/.stamp-test
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q $(QUICK) $(ARGS)

test: $(VENV)/.stamp-test lint
	@CHROMIUM="$$(bash tools/find_chromium.sh)" OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 \
	  $(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(ARGS)

lint: $(VENV)/.stamp-test
	@$(BIN)/ruff check src tests benchmarks experiments tools
	@$(BIN)/ruff format --check --quiet src tests benchmarks experiments tools || { echo 'Not in our format: run .venv/bin/ruff format src tests benchmarks experiments tools'; exit 1; }
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python -m tools.cycles

bench: $(VENV)/.stamp-test
	@$(BIN)/python -m benchmarks.run

docs: $(VENV)/.stamp-test
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

faults: $(VENV)/.stamp-test
	@$(BIN)/python -m pytest -m faults -s $(ARGS)

mutants: $(VENV)/.stamp-test
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tools.mutants --jobs $(JOBS) $(ARGS)

audit: $(VENV)/.stamp-test
	@$(BIN)/python -m pytest -m audit -s $(ARGS)

test-network: $(VENV)/.stamp-test
	@TASKVEIL_REQUIRE=flower $(BIN)/python -m pytest -m network -s --ignore tests/integration/test_faults_network.py $(ARGS)

faults-network: $(VENV)/.stamp-test
	@TASKVEIL_REQUIRE=flower $(BIN)/python -m pytest -m network -s tests/integration/test_faults_network.py $(ARGS)

test-engine: $(VENV)/.stamp-test
	@TASKVEIL_REQUIRE=dask $(BIN)/python -m pytest -m engine -s $(ARGS)

# Both archives, checked as a registry would; then the wheel in a clean environment: size, demo, fit, report.
wheel: $(VENV)/.stamp-test
	@$(PIP) -e '.[release]'
	@rm -rf dist && $(BIN)/python -m build --outdir dist . > /dev/null && $(BIN)/python -m twine check --strict dist/*
	@$(BIN)/python -m pytest -m wheel -s $(ARGS)

reproduce-quick: $(VENV)/.stamp-test
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/taskveil reproduce all --quick --out test-artefacts/reproduce

clean:
	rm -rf $(VENV) demo-report test-artefacts .pytest_cache .mypy_cache .ruff_cache build dist site
