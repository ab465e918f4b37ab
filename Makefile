# Everything here starts from a bare Python with pip: setup fetches the locked environment, and uv if there is none; the tests
# fetch the JavaScript SDK, and Node and Chromium if there are none. `make` alone lists the targets.

BIN := .venv/bin
LOCKED := .venv/.locked
CHROMIUM_NAMES := chromium chromium-browser google-chrome google-chrome-stable

# uv trusts the certificate authorities that the system trusts, such as a company's own.
export UV_SYSTEM_CERTS ?= true

.DEFAULT_GOAL := help
.PHONY: help setup run report test test-deep check bench benchqueries benchpages pictures modules facts site soak demo lock

help:      ## this list
	@sed -n 's/^\([a-z-]*\): .*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

setup: $(LOCKED) ## the locked environment in .venv, with .venv/bin/misstep

run: $(LOCKED) ## collector and dashboard; prints their addresses and the line to paste for an agent
	@exec $(BIN)/misstep up

report: $(LOCKED) ## what the agents on this machine keep getting wrong, from their own files; nothing is kept
	@exec $(BIN)/misstep report

# Tests start Python hundreds of times: each start compiles what has no bytecode.
test test-deep check: export PYTHONDONTWRITEBYTECODE :=

test: $(LOCKED) .venv/.node .venv/.stack .venv/.chromium .venv/.adapters ## every claim, the browser's too
	@# What fails beside other tests may lack time on a busy machine: it runs once more, alone, and must then pass.
	@export MISSTEP_SLOW=$${MISSTEP_SLOW:-fail}; $(BIN)/pytest -n 2 --dist worksteal -m "not deep" || \
	  { [ $$? = 1 ] && echo 'Once more, alone:' && $(BIN)/pytest --last-failed --maxfail 1 -m "not deep"; }

test-deep: $(LOCKED) .venv/.node .venv/.stack .venv/.chromium .venv/.adapters ## larger searches: more examples, soaks, all widths and themes
	MISSTEP_EXAMPLES=$${MISSTEP_EXAMPLES:-400} $(BIN)/pytest -n 2 --dist worksteal --timeout 3600 -m "deep or search"

check: $(LOCKED) .venv/.stack .venv/.adapters ## style, types and the tests that need neither a process nor a browser
	$(BIN)/ruff check .
	$(BIN)/mypy
	cd sdk && ../$(BIN)/mypy
	@$(MAKE) --no-print-directory site
	$(BIN)/pytest -n 2 --dist worksteal -m "not process and not browser and not deep"

bench: $(LOCKED) ## CPU time per event, events/s, latency, memory and disk, compared with references in the same run
	$(BIN)/python -m benchmarks.ingest
	$(BIN)/python -m benchmarks.load --encoding json
	$(BIN)/python -m benchmarks.load --encoding protobuf

soak: $(LOCKED) ## kills, full disks, duplicates and malformed bodies under load; counts every record at the end
	$(BIN)/python -m benchmarks.soak

benchqueries: $(LOCKED) ## the dashboard's queries over a million made-up events
	$(BIN)/python -m benchmarks.queries

benchpages: $(LOCKED) .venv/.chromium ## the dashboard's pages in a browser, over a million made-up events
	$(BIN)/python -m benchmarks.pages

pictures: $(LOCKED) .venv/.chromium ## screenshots of the dashboard, into docs/images
	$(BIN)/python -m benchmarks.pictures

modules: $(LOCKED) ## the list of modules, from their docstrings, into docs/modules.md, which is not in git
	$(BIN)/python tests/module_list.py

site: modules ## docs/ as a site with search, into site/
	$(BIN)/python docs/site/prepare.py .venv/pages
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet .venv/pages site

facts: $(LOCKED) ## what follows from each class and what it is called, from schemas/taxonomy.toml into the SDK
	$(BIN)/python tests/sdk_facts.py

demo: $(LOCKED) ## sends realistic traffic to the collector that `make run` started
	$(BIN)/misstep demo

lock: $(LOCKED) ## updates the lock files to new versions, with hashes
	uv=$$(./.ci/uv) && for lock in 'pyproject.toml --all-extras --output-file requirements.lock' \
	    'pyproject.toml --all-extras --group dev --constraints requirements.lock --output-file requirements-dev.lock' \
	    '--group build --constraints requirements-dev.lock --output-file requirements-build.lock' \
	    'sdk/pyproject.toml --group sdk/pyproject.toml:adapters --output-file sdk/requirements-adapters.lock' \
	    '--group bootstrap --output-file requirements-bootstrap.lock' '--group node --output-file requirements-node.lock' \
	    '--group stack --constraints requirements-dev.lock --output-file requirements-stack.lock'; do \
	  "$$uv" pip compile --universal --generate-hashes --no-header --quiet --upgrade --no-emit-package misstep-sdk $$lock || exit 1; \
	done

$(LOCKED): requirements-dev.lock requirements-bootstrap.lock pyproject.toml sdk/pyproject.toml .ci/uv
	uv=$$(./.ci/uv) && python=$$(./.ci/python) && \
	  "$$uv" venv --quiet --allow-existing --python "$$python" .venv && \
	  "$$uv" pip sync --quiet --python $(BIN)/python --require-hashes requirements-dev.lock && \
	  "$$uv" pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable . --editable sdk
	@# Writes bytecode even if Python is set not to: without it, every start compiles for half a second.
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -c 'import collector.serve, streamlit.web.bootstrap, altair, polars'
	@touch $@

# The system's Node, or else PyPI's; with it the JavaScript SDK, without running any package's own scripts.
.venv/.node: $(LOCKED) requirements-node.lock tests/js/package.json tests/js/package-lock.json
	@command -v node > /dev/null && command -v npm > /dev/null || \
	  { uv=$$(./.ci/uv) && "$$uv" pip install --quiet --python $(BIN)/python --require-hashes -r requirements-node.lock; }
	@cd tests/js && PATH="$$PATH:$(CURDIR)/$(BIN)" npm ci --ignore-scripts --silent
	@touch $@

# What reads Helm charts, manifests of Kubernetes and PromQL: for a few tests only, and larger than most of the rest.
.venv/.stack: $(LOCKED) requirements-stack.lock
	@uv=$$(./.ci/uv) && "$$uv" pip install --quiet --python $(BIN)/python --require-hashes -r requirements-stack.lock
	@touch $@

# The agent frameworks that the SDK has adapters for, apart from Misstep's own environment.
.venv/.adapters: $(LOCKED) sdk/requirements-adapters.lock
	@uv=$$(./.ci/uv) && "$$uv" venv --quiet --allow-existing --python $(BIN)/python .venv/adapters && \
	  "$$uv" pip sync --quiet --python .venv/adapters/bin/python --require-hashes sdk/requirements-adapters.lock && \
	  "$$uv" pip install --quiet --python .venv/adapters/bin/python --no-deps --editable sdk
	@touch $@

# The system's Chromium; or else Debian's package, which brings its libraries; or else Playwright's own.
.venv/.chromium: $(LOCKED)
	@command -v $(CHROMIUM_NAMES) > /dev/null || \
	  { [ "$$(id -u)" = 0 ] && grep -qs '^ID=debian' /etc/os-release && \
	    ./.ci/apt chromium; } || \
	  $(BIN)/playwright install $$([ "$$(id -u)" = 0 ] && echo --with-deps) chromium
	@touch $@
