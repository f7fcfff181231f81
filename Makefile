# Every target prepares what it needs: on a fresh machine `make up` or `make test` is the whole set-up.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help install up test check format lock bench clean

help: ## Show the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Pharos needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Set PYTHON=/path/to/python3.11") if sys.version_info < (3, 11) else None'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo 'No virtual environment could be made. On Debian: apt-get install python3-venv'; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "$$(grep -oE '^uv==[^ ]+' requirements.lock)"
	$(BIN)/uv pip sync --quiet --compile-bytecode --python $(BIN)/python --require-hashes requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --editable .
	@touch $@

install: $(STAMP) ## Prepare .venv from the lock file; .venv/bin/pharos then works

up: $(STAMP) ## Run the whole platform here: http://127.0.0.1:8000, data in ./.pharos
	@exec $(BIN)/pharos up $(ARGS)

test: $(STAMP) ## Run all tests
	$(BIN)/python -m pytest $(ARGS)

check: $(STAMP) ## Format, lint, types and layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP) ## Put the code into its form
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP) ## Measure each part: events/s, CPU per event, p50/p99, peak memory
	$(BIN)/python -m loadtests.bench $(ARGS)

lock: ## Resolve the dependencies again into requirements.lock
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-annotate --no-header \
	  --python-version 3.11 --extra dev --output-file requirements.lock pyproject.toml

clean: ## Remove what was built; data in ./.pharos stays
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
