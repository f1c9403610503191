# The two commands: make train, make test. Both set up what they need in .venv; a second call skips that.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
JOBS ?= 2

VENV := .venv
BIN := $(VENV)/bin
# a thread a worker: more would only take turns
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS)

.PHONY: train test test-all check lint format conformance setup adapter print-python clean help

help:  ## say what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

train: $(VENV)/.stamp-train  ## train the digit classifier on this machine's GPU, or its CPU
	$(BIN)/shadergrad train digits

test: lint adapter  ## lint, then every test on cpu and webgpu, then webgpu again within the portable limits
	$(PYTEST)
	SHADERGRAD_PROFILE=portable $(PYTEST) -m "webgpu and not slow"

test-all: lint adapter  ## the same with the slow tests
	$(PYTEST) -m ""
	SHADERGRAD_PROFILE=portable $(PYTEST) -m webgpu

check: format lint  ## format, lint, types, and the tests that need no adapter: seconds
	$(PYTEST) -m "not webgpu and not slow"

lint: setup  ## ruff, the formatter, pyright
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright

format: setup  ## format the sources and mend what ruff can mend
	$(BIN)/ruff check --fix-only --quiet
	$(BIN)/ruff format

conformance: adapter  ## measure every operator against its reference, and write docs/conformance.md
	$(BIN)/python scripts/conformance.py

setup: $(VENV)/.stamp-dev  ## everything that tests and lint need, in .venv

adapter: setup
	@scripts/ensure-adapter.sh $(BIN)/python
	@scripts/ensure-tools.sh

print-python:
	@echo $(PYTHON)

clean:  ## remove .venv, caches and builds; runs/ stays
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis
	find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "shadergrad needs Python 3.11 or newer: install it, or name it: make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.stamp-train: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable ".[plots,datasets]"
	@touch $@

$(VENV)/.stamp-dev: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable ".[dev,torch]"
	@touch $@ $(VENV)/.stamp-train
