# `make` alone lists what can be made. PYTHON, VENV and WORKERS can be given: make test PYTHON=python3.12 WORKERS=4
# `make setup LOCK=` installs the newest versions that constraints.txt allows, without looking at hashes.

NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON     ?= $(shell for p in python3 python3.11 python3.12 python3.13 python3.14 python; do \
                $$p -c '$(NEW_ENOUGH)' >/dev/null 2>&1 && { echo $$p; break; }; done)
VENV       ?= .venv
WORKERS    ?= 2
LOCK       ?= requirements.lock
CUDA_LOCK  := requirements-cuda.lock
SITE       ?= build/site
FUZZ_MINUTES ?= 60
FUZZ_SEED  ?= $(shell date +%Y%m%d)
BIN        := $(VENV)/bin
PIP        := $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt
LOCKED     := $(BIN)/python -m pip install --disable-pip-version-check -q --require-hashes --no-deps
SOURCES    := $(wildcard src tests benchmarks deploy fuzz scripts)
TYPED      := $(wildcard src benchmarks deploy fuzz scripts)
WITH_CUDA  := import importlib.metadata as m, sys; sys.exit(not any(r.startswith(("nvidia", "cuda")) for r in m.requires("torch")))

.DEFAULT_GOAL := help
.PHONY: help setup demo test coverage check format docs links fuzz bench lock release clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.ready  ## virtual environment with everything for work on didact

demo: setup  ## explain a few texts with the built-in model, into runs/demo
	$(BIN)/didact demo --out runs/demo

test: setup  ## all tests; those on real data are skipped where DIDACT_SHARED (../shared) is absent
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

coverage: setup  ## all tests, and the share of the lines they run; fails below the bar in pyproject.toml
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --cov=didact --cov-report=term:skip-covered

check: setup  ## linter, formatter and type checker; changes nothing
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy $(TYPED)

format: setup  ## what the linter and the formatter can mend by themselves
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

docs: setup  ## the site, into build/site: notebooks are executed, warnings and broken links are errors
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs $(SITE)
	$(BIN)/python scripts/check_site.py $(SITE)

links: setup  ## every link of the site to other sites, followed; needs the network
	$(BIN)/python -m sphinx -q -b linkcheck -D nb_execution_mode=off docs build/links

fuzz: setup  ## hostile calls, commands and files for FUZZ_MINUTES (60) with FUZZ_SEED (the day); record in runs/fuzz
	$(BIN)/python -m fuzz --seed $(FUZZ_SEED) --minutes $(FUZZ_MINUTES) --workers $(WORKERS) --out runs/fuzz/record.json

bench: $(VENV)/.peers  ## measure speed: planner, peers, cold start, grading, reports, learned explainers
	$(BIN)/python -m benchmarks.planner
	$(BIN)/python -m benchmarks.peers
	$(BIN)/python -m benchmarks.startup
	$(BIN)/python -m benchmarks.metrics
	$(BIN)/python -m benchmarks.report
	$(BIN)/python -m benchmarks.l2e

lock:  ## pin all dependencies with hashes again; needs uv
	$(PYTHON) scripts/lock.py

release: coverage  ## all of coverage, then wheel and sdist in dist/, tried in a bare environment, with a bill of materials
	$(BIN)/python scripts/release.py --out dist
	$(BIN)/python scripts/sbom.py --out dist/didact.cdx.json

clean:  ## remove the virtual environment and caches; runs/ stays
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests $(wildcard benchmarks fuzz scripts) -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.ready: pyproject.toml constraints.txt $(LOCK)
	@'$(PYTHON)' -c '$(NEW_ENOUGH)' 2>/dev/null || { \
	  echo "didact needs Python 3.11 or newer; '$(or $(PYTHON),python3)' is missing or older." \
	       "Install one, or name it: make setup PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@echo 'Installing torch: large, so the first time takes a minute or more.'
ifeq ($(LOCK),)
	$(PIP) torch
	$(PIP) -q -e '.[dev]'
else
	$(BIN)/python -m pip download --disable-pip-version-check -q --no-deps -c constraints.txt -d $(VENV)/wheels torch
	@awk '/^torch==/ { own = 1 } own { print } own && !/\\$$/ { exit }' $(LOCK) > $(VENV)/torch.lock
	$(LOCKED) --no-index --find-links $(VENV)/wheels -r $(VENV)/torch.lock
	$(LOCKED) -r $(LOCK)
	@if $(BIN)/python -c '$(WITH_CUDA)'; then $(LOCKED) -r $(CUDA_LOCK); fi
	$(LOCKED:--require-hashes=) --no-build-isolation -e .
endif
	@touch $@

$(VENV)/.peers: $(VENV)/.ready
	$(PIP) -q -e '.[peers]'
	@touch $@
