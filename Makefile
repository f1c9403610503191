# The two commands: make train, make test. Both set up what they need in .venv; a second call skips that.
# SHARE=K/N: of N shares of the tests, the K-th alone.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
JOBS ?= 2
SEED ?= 1
SHARE ?=

# modules are compiled once, not in each of the hundreds of processes that the tests start, whatever the environment says
export PYTHONDONTWRITEBYTECODE :=

VENV := .venv
BIN := $(VENV)/bin
# one thread per worker: more threads would only wait for each other
# a worker takes tests of one module, which share its fixtures; an idle worker takes tests from the other
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(if $(SHARE),--share $(SHARE))
TRAININGS := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python scripts/trainings.py
PROGRAMS := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python scripts/programs.py
# another processor's BLAS and NumPy (whose releases name its features differently), two threads, another order, the cpu device's reference
ELSEWHERE := SHADERGRAD_CPU=reference OMP_NUM_THREADS=2 OPENBLAS_NUM_THREADS=2 OPENBLAS_CORETYPE=Prescott \
	NPY_DISABLE_CPU_FEATURES="X86_V3 X86_V4 AVX512_ICL AVX512_SPR AVX2 FMA3 AVX512F AVX512_SKX" \
	$(BIN)/python -m pytest -n $(JOBS) $(if $(SHARE),--share $(SHARE)) --random-order-bucket=global --random-order-seed=$(SEED)

.PHONY: train test test-portable test-slow test-all test-elsewhere mutants experiments check lint format stubs op composed module optimizer docs notebooks results conformance setup adapter style types source-types javascript npm null print-python clean help

help:  ## say what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 16

train: $(VENV)/.stamp-train  ## train the digit classifier on this machine's GPU, or its CPU (OPTIONS=--overwrite: once more)
	$(BIN)/shadergrad train digits $(OPTIONS)

test: style types adapter  ## lint and types, then every test on cpu and webgpu
	$(PYTEST)

test-portable: adapter  ## the tests on webgpu within the limits that every browser and phone grants
	SHADERGRAD_PROFILE=portable $(PYTEST) -m "webgpu and not slow and not experiment"

test-slow: adapter  ## the tests that take more than 0.7 s of processor time, and near-duplicates of other tests
	$(PYTEST) -m "slow and not experiment"
	SHADERGRAD_PROFILE=portable $(PYTEST) -m "webgpu and slow and not experiment" --ignore tests/device/test_programs_people_know.py

test-all: test test-portable test-slow adapter  ## every test, and random programs and trainings by the thousand beside PyTorch
	$(PROGRAMS) --seeds 1000:21000 --modes eager-cpu,compiled-cpu,module-cpu,torch-cpu --jobs $(JOBS)
	$(PROGRAMS) --seeds 50:2050 --modes eager-webgpu,compiled-webgpu --jobs $(JOBS)
	$(TRAININGS) --seeds 0:2000 --modes eager-cpu,compiled-cpu --jobs $(JOBS)
	$(TRAININGS) --seeds 0:300 --modes eager-webgpu,compiled-webgpu --jobs $(JOBS)

test-elsewhere: setup  ## the tests that need no adapter as on another processor, in a random order (SEED=1)
	$(ELSEWHERE) -m "not webgpu and not slow and not experiment"

.PHONY: matrix
matrix: adapter  ## the tests that lean on the interpreter, on each that this machine has (DEBIAN=yes fetches more); writes a page
	$(BIN)/python scripts/matrix.py $(if $(DEBIAN),--debian)

mutants: adapter  ## plant the faults of scripts/faults, one at a time: the tests must catch 95 % (before a release; ONLY=name)
	$(BIN)/python scripts/mutants.py --jobs $(JOBS) $(if $(ONLY),--only $(ONLY))

experiments: setup  ## train the published logic experiments to their end, on the CPU: hours
	$(PYTEST) -m experiment

check: $(VENV)/.stamp-dev  ## lint, types of src, and the tests that need no device: changes nothing, needs no adapter, a minute
	@$(MAKE) --no-print-directory --jobs=3 style source-types null

null: $(VENV)/.stamp-dev
	$(PYTEST) tests/golden tests/null  # the longest first

lint: style source-types  ## ruff, the formatter, pyright over src: changes nothing, installs no PyTorch

source-types: $(VENV)/.stamp-lint
	$(BIN)/pyright --threads $(JOBS) src

style: $(VENV)/.stamp-lint
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/python scripts/stubs.py --check
	$(BIN)/python scripts/results.py --check

types: $(VENV)/.stamp-dev  ## pyright over src, tests, scripts, benchmarks and examples, which import PyTorch too
	$(BIN)/pyright --threads $(JOBS)

javascript:  ## types and size of what pages run, by npm's typescript and esbuild
	npx --yes --package typescript@7 tsc --project tests/web/tsconfig.json
	@size=$$(npx --yes esbuild@0.28 src/shadergrad/web/site/runtime.js --bundle --minify --format=esm | wc -c); \
	echo "runtime.js: $$size bytes minified, of 20000"; test $$size -le 20000

npm: $(BIN)/python  ## the npm package of what pages run, with types: build/npm and its archive; publishes nothing
	$(BIN)/python scripts/npm.py

format: $(VENV)/.stamp-lint  ## format the sources and mend what ruff can mend
	$(BIN)/ruff check --fix-only --quiet
	$(BIN)/ruff format

stubs: $(VENV)/.stamp-lint  ## write the types of what is made from tables: methods of records, aliases, functions
	$(BIN)/python scripts/stubs.py

op: $(VENV)/.stamp-dev  ## begin an elementwise operation, with its case, fault and digests: make op NAME=entr
	$(BIN)/python scripts/scaffold.py op $(NAME)

composed: $(VENV)/.stamp-dev  ## begin a composed operation: make composed NAME=standardize ROOM=reduce
	$(BIN)/python scripts/scaffold.py composed $(NAME) $(if $(ROOM),--room $(ROOM))

module: $(VENV)/.stamp-dev  ## begin a module: make module NAME=Scale
	$(BIN)/python scripts/scaffold.py module $(NAME)

optimizer: $(VENV)/.stamp-dev  ## begin an optimizer: make optimizer NAME=Signum
	$(BIN)/python scripts/scaffold.py optimizer $(NAME)

results: $(VENV)/.stamp-lint  ## write benchmarks/RESULTS.md and the tables of README and docs from benchmarks/results
	$(BIN)/python scripts/results.py

docs: $(VENV)/.stamp-site  ## write the documentation as a site into build/site; a warning is an error
	$(BIN)/python scripts/site.py build/site
	@echo "to see it: $(BIN)/python -m http.server --directory build/site"

notebooks: $(VENV)/.stamp-dev  ## run the notebooks of docs/notebooks and keep what they show
	$(BIN)/python scripts/notebooks.py

conformance: adapter  ## measure every operator against its reference, and write docs/conformance.md and -browser.md
	$(BIN)/python scripts/conformance.py
	$(BIN)/python scripts/conformance_accuracy.py
	$(BIN)/python scripts/conformance_browser.py
	@found=$$(mktemp -d) && set -x && \
	$(BIN)/python scripts/conformance_ops.py --json $$found/cpu > $$found/log && \
	$(BIN)/python scripts/conformance_ops.py --device webgpu --most 2 --json $$found/webgpu > $$found/log && \
	SHADERGRAD_PROFILE=portable $(BIN)/python scripts/conformance_ops.py --device webgpu --most 1 --json $$found/portable > $$found/log && \
	$(BIN)/python scripts/conformance_modules.py > $$found/modules && \
	$(BIN)/python scripts/conformance_page.py cpu=$$found/cpu "webgpu, two samples of each dtype=$$found/webgpu" \
		"portable, a sample of each dtype=$$found/portable" --modules $$found/modules --where "$$(date +%F), $$(uname -srm)"

setup: $(VENV)/.stamp-dev  ## everything that tests and lint need, in .venv

adapter: setup  ## a software adapter and the tools of the tests, as system packages (INSTALL=no: not)
	@scripts/ensure-packages.sh $(BIN)/python

print-python:
	@echo $(PYTHON)

clean:  ## remove .venv, caches and builds; runs/ stays
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis
	find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "shadergrad needs Python 3.11 or newer: install it, or name it: make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.stamp-train: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable ".[cpu]"
	@touch $@

$(VENV)/.stamp-lint: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable ".[lint]"
	@touch $@

$(VENV)/.stamp-site: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable ".[site]"
	@touch $@

$(VENV)/.stamp-dev: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable ".[dev,torch]"
	@touch $@ $(VENV)/.stamp-train $(VENV)/.stamp-lint
