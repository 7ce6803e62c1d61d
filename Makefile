# Every target does its own set-up; nothing has to be installed by hand before.
.DEFAULT_GOAL := help
SHELL := /bin/sh

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
CONSTRAINTS := deploy/constraints.txt
# The last botocore whose model of SQS is of the Query protocol: it makes a Query client of any botocore.
QUERY_MODEL := .cache/botocore-1.31.80

.PHONY: help run test test-all lint format check packages constraints wheel clean

help: ## Show this help
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

run: $(VENV)/.installed ## Run a broker on an embedded PostgreSQL at http://localhost:9324
	@$(BIN)/skipmq serve

test: $(VENV)/.dev packages lint ## Lint, type-check and run all tests that the gate runs
	$(BIN)/pytest

test-all: $(VENV)/.dev packages lint ## The same with the slow tests
	$(BIN)/pytest -m "slow or not slow"

lint: $(VENV)/.dev ## Check format, lint, types and the layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(VENV)/.dev ## Format the code and mend what ruff can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

wheel: $(VENV)/.dev ## Build the wheel into dist/
	$(BIN)/hatchling build -t wheel

packages: ## Install the Debian packages that tests want (as root; otherwise name them)
	@.ci/packages

constraints: ## Write the tested versions anew, the newest that the ranges admit
	rm -rf .cache/resolve && $(PYTHON) -m venv .cache/resolve
	.cache/resolve/bin/python -m pip install -q -e '.[dev]'
	.cache/resolve/bin/python -m pip freeze --exclude-editable > $(CONSTRAINTS)
	rm -rf .cache/resolve

clean: ## Remove what was built and installed here
	rm -rf $(VENV) .cache dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "SkipMQ needs Python 3.11 or newer; name one with: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { rm -rf $(VENV); echo "Python cannot make virtual environments: install python3-venv" >&2; exit 1; }

$(VENV)/.installed: pyproject.toml $(CONSTRAINTS) | $(VENV)/bin/python
	@echo "installing SkipMQ into $(VENV)"
	@$(PIP) install -q -c $(CONSTRAINTS) -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.installed
	@echo "installing the tools for development into $(VENV)"
	@$(PIP) install -q -c $(CONSTRAINTS) -e '.[dev]'
	@$(PIP) install -q --no-deps --upgrade --target $(QUERY_MODEL) botocore==1.31.80
	@touch $@
