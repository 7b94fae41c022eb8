# Everything works on a fresh machine with python3 (3.11 or newer), its venv module and make.
# Each target makes .venv by itself; `make clean` removes it again.

PYTHON   ?= python3
VENV     ?= .venv
BIN      := $(VENV)/bin
RUN      := $(VENV)/.run
DEV      := $(VENV)/.dev
PORT     ?= 8501
ARGS     ?=
PYTEST_ARGS ?=
# Ray and Streamlit both phone home by default; nothing of ours should.
export RAY_USAGE_STATS_ENABLED = 0
export STREAMLIT_BROWSER_GATHER_USAGE_STATS = false

.DEFAULT_GOAL := help
.PHONY: help demo serve headless test lint types format unit screenshots bench rules docs system-check \
        constraints clean

help: ## Say what each target does
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | \
	  awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

# --- environments ------------------------------------------------------------------------------

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Slicewatch needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) -V 2>&1)." \
	         "Name another one: make PYTHON=python3.12 …" >&2; exit 1; }
	@echo "Making $(VENV) …"
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "python3 -m venv failed; on Debian: apt-get install python3-venv" >&2; \
	    rm -rf $(VENV); exit 1; }

$(RUN): requirements.txt requirements-dashboard.txt requirements-headless.txt constraints.txt | $(BIN)/python
	@echo "Installing what the demo and the dashboard need (a minute or two the first time) …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $@

$(DEV): requirements-dev.txt $(RUN)
	@echo "Installing what the tests need …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@

# --- running -----------------------------------------------------------------------------------

demo: $(RUN) ## A real local Ray cluster with TPU-labelled hosts, and the dashboard on it
	@$(BIN)/python -m slicewatch demo $(ARGS)

serve: $(RUN) ## The dashboard on your own cluster (kubeconfig; ARGS="--ray-address URL" without one)
	@$(BIN)/python -m slicewatch serve $(ARGS)

headless: $(RUN) ## /metrics and /api/v1 on your own cluster, without the dashboard
	@$(BIN)/python -m slicewatch serve --headless $(ARGS)

# --- checking ----------------------------------------------------------------------------------

test: system-check lint unit ## Set up everything, then lint, types, walls and all tests

unit: $(DEV)
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(DEV) types ## Style, import order, types and the walls between the rooms
	@echo "ruff …" && $(BIN)/ruff check . && $(BIN)/ruff format --check --quiet .
	@echo "import-linter …" && $(BIN)/lint-imports --no-cache >$(VENV)/walls.log 2>&1 || \
	  { cat $(VENV)/walls.log; exit 1; }

types: $(DEV)
	@echo "mypy …" && $(BIN)/mypy

format: $(DEV) ## Put the code into the one format
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format --quiet .

system-check: ## Name the real parts whose tests are skipped because a program is missing
	@missing=0; \
	say() { \
	  if ! command -v "$$1" >/dev/null 2>&1; then missing=1; \
	    echo "skipped for want of $$1 (Debian: apt-get install $$2): the tests that $$3"; fi; }; \
	say chromium chromium "drive the dashboard in a real browser"; \
	say promtool prometheus "check the alert rules and the exposition"; \
	say prometheus prometheus "scrape the exporter with a real Prometheus"; \
	say amtool prometheus-alertmanager "route alerts through a real Alertmanager"; \
	say kubectl kubernetes-client "talk to the simulated Kubernetes API as a person does"; \
	say pg_ctlcluster postgresql "keep history in a real PostgreSQL"; \
	if [ $$missing = 0 ]; then \
	  echo "Nothing is skipped: Chromium, Prometheus, Alertmanager, kubectl, PostgreSQL."; fi

screenshots: $(DEV) ## Pictures of each page, healthy and broken, into docs/images
	@$(BIN)/python -m tests.screenshots $(ARGS)

bench: $(DEV) ## Benchmarks: time and memory against fleet size
	@for file in benchmarks/bench_*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

rules: $(DEV) ## Alert rules with your own DASHBOARD_URL and RUNBOOK_URL
	@$(BIN)/python deploy/prometheus/generate.py \
	  $(if $(DASHBOARD_URL),--dashboard-url $(DASHBOARD_URL)) \
	  $(if $(RUNBOOK_URL),--runbook-url $(RUNBOOK_URL))

docs: $(DEV) ## The tables in README.md and docs/ that say what the code says
	@$(BIN)/python docs/generate.py

# --- housekeeping ------------------------------------------------------------------------------

constraints: $(DEV) ## Write constraints.txt from what .venv holds now
	@{ sed -n '/^#/p' constraints.txt; \
	   $(BIN)/python -m pip freeze --exclude pip --exclude setuptools; } >constraints.new
	@mv constraints.new constraints.txt

clean: ## Remove the environment and all caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build \
	  ./*.egg-info
