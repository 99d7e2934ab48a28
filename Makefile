# Everything a newcomer needs. `make` alone lists the targets.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
SEEDS  ?= 1
MINUTES ?= 30
SEED   ?= 1

# How OpenMP's threads wait, as in src/drpl/runs/machine.py: some scripts import torch before drpl.
ifndef OMP_WAIT_POLICY
export GOMP_SPINCOUNT ?= 10000
export KMP_BLOCKTIME ?= 1
endif

.DEFAULT_GOAL := help
.PHONY: help setup demo test coverage check types windows format slow wheel campaign bench mini paper ablations length claims scale screenshots docs clean

help: ## Show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: $(VENV)/ready ## Make .venv and install drpl with its pinned dependencies

$(VENV)/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: setup ## Clean a folder with wrong labels, then compare three methods (SEEDS="1 2 3" for more)
	$(BIN)/python examples/demo.py --seeds $(SEEDS)

test: check ## Format, lint, types, and the tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal

coverage: setup ## The tests once more, with the lines that none of them runs (a third longer)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal --cov --cov-report=term:skip-covered --cov-fail-under=95

check: setup ## Format, lint and types only
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@$(MAKE) --no-print-directory -j 2 types windows

types:
	$(BIN)/mypy

windows:
	$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/win32 src

format: setup ## Let ruff format and mend what it can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

slow: setup ## The long experiments: kills at random moments, three seeds of the demo
	$(BIN)/python -m pytest -m slow

wheel: setup ## Build wheel and sdist, install each in a new environment and clean a folder with it
	$(BIN)/python -m pytest -m slow tests/test_packaging.py

campaign: setup ## Attack every command for half an hour (MINUTES=60 SEED=2 for others)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.campaign --minutes $(MINUTES) --seed $(SEED)

bench: setup ## Speed ratios, cleaning and the demo's figures, written to benchmarks/results/
	$(BIN)/python benchmarks/bench.py
	$(BIN)/python benchmarks/vectors.py
	$(BIN)/python -m benchmarks.cleaning
	$(BIN)/python examples/demo.py --seeds 1 2 3 --save benchmarks/results/demo.json
	$(BIN)/python benchmarks/pages.py

mini: setup ## Every method under four noises on Fashion-MNIST (DATA=folder; six hours of one core)
	$(BIN)/python -m benchmarks.mini $(if $(DATA),--data-dir $(DATA))
	@$(MAKE) --no-print-directory claims

paper: setup ## The paper's grid on features, all methods and levels (DATA=folder; several hours of one core)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.paper $(if $(DATA),--data-dir $(DATA))
	@$(MAKE) --no-print-directory claims

ablations: setup ## What each part of DRPL is worth, on features and from scratch (DATA=folder)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.ablations $(if $(DATA),--data-dir $(DATA))
	$(BIN)/python benchmarks/pages.py

length: setup ## The paper's own epochs from scratch on CIFAR-10 (DATA=folder; nine hours of two cores)
	$(BIN)/python -m benchmarks.full_length $(if $(DATA),--data-dir $(DATA))

claims: setup ## Judge every claim by the results that there are, rank detectors and methods (seconds)
	$(BIN)/python -m benchmarks.claims
	$(BIN)/python -m benchmarks.leaderboard
	$(BIN)/python -m benchmarks.which
	$(BIN)/python benchmarks/pages.py

scale: setup ## Seconds and memory from 10,000 to 1,000,000 samples (45 GB of disk, an hour)
	$(BIN)/python -m benchmarks.scale
	$(BIN)/python benchmarks/pages.py

screenshots: setup ## The pictures of the docs, by a headless Chromium
	DRPL_SCREENSHOTS=docs/images $(BIN)/python -m pytest tests/cleaning/test_tutorial.py

docs: $(VENV)/docs ## The docs as a site in build/site; any warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

$(VENV)/docs: $(VENV)/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@

clean: ## Remove what the targets made
	rm -rf $(VENV) build runs .pytest_cache .mypy_cache .ruff_cache .coverage
