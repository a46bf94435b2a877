# Every target with "##" after it is listed by `make`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help install test lint format types layers generate check bench full ci clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(BIN)/flo ## make .venv and install flo into it, editable, with what the tests need

$(BIN)/flo: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[test]'
	@touch $@

test: install ## run the tests
	$(BIN)/pytest

lint: install ## look for mistakes and for code that is not formatted
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: install ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: install ## check the types
	$(BIN)/mypy

layers: install ## check that dependencies point inwards
	$(BIN)/lint-imports

generate: install ## write the generated part of the docs and the schemas anew
	$(BIN)/python docs/generate.py

check: lint types layers test ## all of the above that checks, and that nothing generated is out of date
	$(BIN)/python docs/generate.py --check

bench: install ## measure how fast it is, beside what one would write by hand and the peers that are installed
	$(BIN)/python -m benchmarks

full: install ## run the tests of kills, long loops and many rows at their full size; takes long
	FLO_TEST_FULL=1 $(BIN)/pytest tests/faults tests/engine/test_long_loop.py tests/recipes

ci: ## what the continuous integration runs, in a folder of its own
	bash .ci/run

clean: ## remove .venv and what builds leave behind
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
