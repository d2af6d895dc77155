# Needs Python 3.11 and make; each target sets up the rest.

AIRFLOW ?= 3.3.2
NEWEST := 3.3.2
PYTHON ?= $(or $(shell command -v python3.11),python3)
VENV := $(if $(filter $(NEWEST),$(AIRFLOW)),.venv,.venv-$(AIRFLOW))
CONSTRAINTS := constraints/airflow-$(AIRFLOW).txt
PY := $(VENV)/bin/python
STAMP := $(VENV)/.stamp
PIP := $(PY) -m pip --quiet --quiet --disable-pip-version-check
PYTEST := $(PY) -m pytest

# What is there of it: parts of the repository that hold Python.
SOURCES := $(wildcard src harness tests benchmarks examples scripts docs)
TYPED := $(wildcard src harness tests benchmarks scripts)

# No target may touch the Airflow of whoever calls make.
export AIRFLOW_HOME := $(CURDIR)/build/airflow-$(AIRFLOW)
export AIRFLOW__CORE__LOAD_EXAMPLES := False
export FULL KEEP HARNESS_POSTGRES
# Without byte code every task process compiles Airflow anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help venv demo test integration lint docs bench wheel clean

help: ## Show the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/\1|\2/p' Makefile | while IFS='|' read -r name text; do \
		printf '%-12s %s\n' "$$name" "$$text"; done
	@printf '\nAIRFLOW=3.3.0 chooses another version of Airflow (%s), FULL=1 the long tests too,\n' \
		"$(patsubst constraints/airflow-%.txt,%,$(wildcard constraints/*.txt))"
	@printf 'ARGS="-k name" reaches pytest.\n'

venv: $(STAMP) ## Set up the virtual environment that the other targets use

$(STAMP): pyproject.toml $(CONSTRAINTS)
	@echo "Setting up $(VENV) with Airflow $(AIRFLOW) ..."
	@set -e; start=$$(date +%s); \
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "Python 3.11 or newer is needed: set PYTHON"'; \
	$(PYTHON) -m venv $(VENV); \
	$(PIP) install -c $(CONSTRAINTS) -e '.[msgraph,test,docs]'; \
	touch $@; \
	echo "$(VENV) is ready after $$(($$(date +%s) - start)) s."

demo: $(STAMP) ## Run a small Airflow that shows what the package does (KEEP=1 leaves it running)
	$(PY) -m examples.demo.run

test: $(STAMP) ## Run all tests that need no service
	$(PYTEST) -m "not postgres" $(ARGS)

integration: $(STAMP) ## Run the tests on a real deployment with PostgreSQL (HARNESS_POSTGRES)
	$(PYTEST) -m postgres $(ARGS)

lint: $(STAMP) ## Check style, format and types
	$(PY) -m ruff check $(SOURCES)
	$(PY) -m ruff format --check $(SOURCES)
	$(PY) -m mypy $(TYPED)

docs: $(STAMP) ## Build the documentation into build/docs
	$(PY) -m sphinx -W --keep-going -q -b html docs build/docs
	@echo "build/docs/index.html"

bench: $(STAMP) ## Run a benchmark: make bench NAME=stream_write
	@test -n "$(NAME)" || { echo "Say which: make bench NAME=..., one of:" \
		$(sort $(filter-out __init__,$(basename $(notdir $(wildcard benchmarks/*.py))))); exit 2; }
	@mkdir -p build/bench
	$(PY) -m benchmarks.$(NAME) $(ARGS)

wheel: $(STAMP) ## Build the wheel into dist/
	@rm -rf dist
	$(PIP) wheel --no-deps --wheel-dir dist .
	@ls dist/*.whl

clean: ## Remove everything that the other targets made
	rm -rf .venv .venv-* build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests scripts docs harness benchmarks examples -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
