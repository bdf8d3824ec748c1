# Everything runs in a virtual environment of its own; the system's packages are never touched.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
CODE   := protocol profiler splitter device_agent cloud_worker demos tests

.PHONY: help venv demo test test-all check format bench clean
.DEFAULT_GOAL := help

help: ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

venv: $(STAMP) ## the virtual environment with all development packages

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

demo: $(STAMP) ## plan, split and run EfficientNet-Lite0 over an emulated 20 Mbit/s link
	$(BIN)/python -m demos

test: $(STAMP) ## the test suite (under 15 minutes on two cores)
	$(BIN)/python -m pytest -n auto

test-all: $(STAMP) ## the test suite with the slow tests
	$(BIN)/python -m pytest -n auto -m ''

check: $(STAMP) ## formatter, linter and strict types, as CI runs them
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy

format: $(STAMP) ## reformat and mend what the linter can mend
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

bench: $(STAMP) ## all benchmarks; medians and ratios on this machine
	$(BIN)/python -m tests.benchmarks

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
