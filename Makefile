# Every target prepares what it needs: on a fresh machine `make up` or `make test` is the whole set-up.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
PACKAGES := pipeline_contracts connection_bounds storage_backends analytics_queries ingest_edge consumers \
  git_hosts control_domain notifications control_workers web_dashboard control_api deployer wiring demo operator_cli
# Without bytecode `pharos up` takes 0.5 s of CPU longer. compileall compiles only changed files.
# A failure (read-only folder, other owner, full disk) costs only that time.
COMPILE_CODE := $(BIN)/python -m compileall -qq $(PACKAGES) || true
# One process more than cores, because tests also wait.
JOBS   ?= $(shell expr $$(nproc 2>/dev/null || echo 2) + 1)

.DEFAULT_GOAL := help
# Write bytecode during test runs; otherwise each process compiles Pharos again, for seconds.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help install up docs test test-full test-slice check format bench bench-peers curves simulate accelerator fuzz-accelerator kafka kafka-stop stack stack-down load faults switching hostile signatures mutants country-database compose-secrets lock clean

help: ## Show the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-17s %s\n", $$1, $$2}'

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Pharos needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Set PYTHON=/path/to/python3.11") if sys.version_info < (3, 11) else None'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo 'No virtual environment could be created. On Debian: apt-get install python3-venv'; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "$$(grep -oE '^uv==[^ ]+' requirements.lock)"
	$(BIN)/uv pip sync --quiet --compile-bytecode --python $(BIN)/python --require-hashes requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --editable .
	@$(COMPILE_CODE)
	@touch $@

install: $(STAMP) ## Prepare .venv from the lock file; .venv/bin/pharos then works

up: $(STAMP) ## Run the whole platform here: http://127.0.0.1:8000, data in ./.pharos
	@$(COMPILE_CODE)
	@exec $(BIN)/pharos up $(ARGS)

docs: $(STAMP) ## Generate the pages of commands, settings and metrics, and run the tests of the documentation
	@$(BIN)/python -m operator_cli.reference_pages
	$(BIN)/python -m pytest tests/documentation tests/web_dashboard/documentation $(ARGS)
	@echo 'The documentation: http://127.0.0.1:8000/docs of a running `make up`'

test: $(STAMP) ## Run the tests on real engines; as root on Debian it installs missing ones
	@tests/support/bring_engines.sh $(BIN)/python
	@$(COMPILE_CODE)
	$(BIN)/python -m pytest --numprocesses $(JOBS) --dist loadfile $(ARGS)

test-full: ## Run everything, for releases
	@$(MAKE) --no-print-directory test ARGS="--full $(ARGS)"

# Today's part, 1 to 5. 5 and 7 have no common factor, so work on one weekday also meets every part.
SLICE ?= $(shell expr $$(date +%s) / 86400 % 5 + 1)/5
test-slice: ## Run a fifth of the tests that only test-full runs, another fifth each day; SLICE=2/5 selects one
	@$(MAKE) --no-print-directory test ARGS="--slice $(SLICE) $(ARGS)"

check: $(STAMP) ## Check format, lint, types, layers, and that each query is bound to an account; Rust too if cargo is installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy --config-file clients/python/pyproject.toml
	$(BIN)/lint-imports
	$(BIN)/python -m tests.tooling.check_account_scope
	@if cargo clippy --version >/dev/null 2>&1; then cd accelerator && cargo fmt --check && \
	  cargo clippy --quiet --release --locked --target-dir ../.engines/accelerator-target -- --deny warnings; fi

format: $(STAMP) ## Format the code and fix lint errors
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP) ## Measure each part: events/s, CPU per event, p50/p99, peak memory
	$(BIN)/python -m loadtests.bench $(ARGS)

bench-peers: $(STAMP) ## Compare the edge with the OpenTelemetry Collector, Go and Rust
	$(BIN)/python -m loadtests.peers $(ARGS)

curves: $(STAMP) ## Measure how the CPU per event grows with load and data
	$(BIN)/python -m loadtests.curves $(ARGS)

simulate: $(STAMP) ## Compute the processes that a load needs; ARGS=--check compares the model with real processes
	$(BIN)/python -m loadtests.simulate $(ARGS)

accelerator: $(STAMP) ## Build the edge's accelerator into .venv (needs Rust)
	$(BIN)/python -m tests.support.accelerator

fuzz-accelerator: $(STAMP) ## Compare the accelerator with Python's decoders on random bodies; ARGS="--seconds 3600"
	$(BIN)/python -m loadtests.fuzz_accelerator $(ARGS)

kafka: $(STAMP) ## Run Apache Kafka on 127.0.0.1:9092, data in ./.kafka
	$(BIN)/python -m tests.support.kafka_broker start $(ARGS)

kafka-stop: $(STAMP) ## Stop the broker of `make kafka`
	$(BIN)/python -m tests.support.kafka_broker stop $(ARGS)

stack: $(STAMP) ## Run every part as a separate process on real engines: http://127.0.0.1:8000, in ./.stack
	@tests/support/bring_engines.sh $(BIN)/python
	$(BIN)/python -m loadtests.stack up $(ARGS)

stack-down: $(STAMP) ## Stop the processes of `make stack`
	$(BIN)/python -m loadtests.stack down

load: $(STAMP) ## Run load with locust on the stack, and check that every 202 was stored once
	$(BIN)/python -m loadtests.load $(ARGS)

faults: $(STAMP) ## Send a million events while engines and parts are killed one after the other; report lost and repeated events
	@tests/support/bring_engines.sh $(BIN)/python
	$(BIN)/python -m loadtests.faults $(ARGS)

switching: $(STAMP) ## Send 200 requests/s to an application while it is deployed, rolled back, scaled, killed and woken; report failures
	$(BIN)/python -m loadtests.switching $(ARGS)

hostile: $(STAMP) ## Measure the CPU time and memory of reading hostile workflow and configuration documents
	$(BIN)/python -m loadtests.hostile_documents $(ARGS)

signatures: $(STAMP) ## Measure whether the time to refuse a webhook signature reveals how much of it is right
	$(BIN)/python -m loadtests.webhook_signatures $(ARGS)

mutants: $(STAMP) ## Plant faults one at a time and report which of them the tests miss
	@tests/support/bring_engines.sh $(BIN)/python
	$(BIN)/python -m tests.mutants.run_mutants $(ARGS)

country-database: ## Download a database of countries by address (CC0) from npm to .engines/countries.mmdb
	@mkdir -p .engines/countries
	cd .engines/countries && npm pack --silent @ip-location-db/geo-whois-asn-country-mmdb >/dev/null && tar xzf *.tgz
	@mv .engines/countries/package/geo-whois-asn-country.mmdb .engines/countries.mmdb && rm -rf .engines/countries
	@echo 'Wrote .engines/countries.mmdb: set PHAROS_COUNTRY_DATABASE to its path'

compose-secrets: ## Add the secrets that .env lacks for docker-compose.yml; those in it stay
	@umask 077 && touch .env && test -z "$$(tail -c 1 .env)" || echo >> .env
	@for name in POSTGRES_PASSWORD KAFKA_PASSWORD CLICKHOUSE_PASSWORD REDIS_PASSWORD PHAROS_RECEIPT_KEY PHAROS_VARIABLES_KEY; do \
	  grep -q "^$$name=." .env || { \
	    echo "$$name=$$(head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n')" >> .env && echo "Added $$name to .env"; }; done

COMPILE := $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-annotate --no-header \
  --python-version 3.11
lock: ## Resolve the dependencies again into the lock files
	$(COMPILE) --extra dev --output-file requirements.lock pyproject.toml
	$(COMPILE) --constraint requirements.lock --output-file requirements.runtime.lock pyproject.toml

clean: ## Remove built files; data in ./.pharos stays
	rm -rf $(VENV) .engines .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .mutants
