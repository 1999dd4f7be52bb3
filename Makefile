# Every target does its own set-up: `make up` and `make test` work on a machine that has only Python 3.11 and this
# checkout.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# What `make up` installs: small, and there within seconds.
QUICK := arrow,yaml
PIPELINES := $(VENV)/.installed-for-pipelines
CLUSTERED := $(VENV)/.installed-for-clusters
EVERYTHING := $(VENV)/.installed-for-development

.PHONY: demo up cluster down venv test soak sim sanitize fuzz mutants check audit audited-packages format bench bench-peers

# What is compiled; a change of it installs anew.
NATIVE := setup.py $(wildcard src/headwater/*/native/*.[ch] src/headwater/*/native/*/*.[ch])

$(INSTALLED): pyproject.toml $(NATIVE)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check -e '.[$(QUICK)]'
	@$(BIN)/python -m compileall -q src
	@touch $(INSTALLED)

$(PIPELINES): $(INSTALLED)
	@echo "Getting Spark (some 450 MB, once)"
	@$(BIN)/pip install --quiet --disable-pip-version-check -e '.[$(QUICK),spark,streams]'
	@touch $(PIPELINES)

$(CLUSTERED): $(INSTALLED)
	@echo "Getting ZooKeeper, which comes with Spark (some 450 MB, once)"
	@$(BIN)/pip install --quiet --disable-pip-version-check -e '.[$(QUICK),cluster]'
	@touch $(CLUSTERED)

$(EVERYTHING): $(INSTALLED) requirements-dev.txt
	@$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $(EVERYTHING)

venv: $(EVERYTHING)
	@$(BIN)/python -m compileall -q src

# A broker, visitors of a website, a Spark pipeline and a Streams application over them, and their results, live; Ctrl-C
# ends it. DEMO='--rate 1000'.
demo: $(PIPELINES)
	@$(BIN)/python -m headwater.demo $(DEMO)

up: $(INSTALLED)
	@$(BIN)/headwater up -d

# Three brokers and a ZooKeeper, in the background.
cluster: $(CLUSTERED)
	@$(BIN)/headwater up --brokers 3 -d

down: $(INSTALLED)
	@$(BIN)/headwater down

check: venv audited-packages
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/lint-imports --no-cache --config import_circles.ini
	$(BIN)/python $(AUDIT) --where-reachable

# Known vulnerabilities of what is installed here and of the lowest versions that pyproject.toml allows, by PyPI's
# advisories, or by those of another service: `make audit OSV_URL=https://.../v1/query`. `make check` does it too, and
# goes on, loudly, where no service can be reached.
AUDIT = tests/advisories.py --pip-audit build/audit/bin/pip-audit $(if $(OSV_URL),--osv-url $(OSV_URL)) build/audit/installed.txt

audit: audited-packages
	@$(BIN)/python $(AUDIT)

audited-packages: venv
	@mkdir -p build/audit
	@test -x build/audit/bin/pip-audit || { $(PYTHON) -m venv build/audit && timeout 180 build/audit/bin/pip install --quiet --disable-pip-version-check --retries 1 --timeout 15 pip-audit; } || true
	@$(BIN)/pip freeze --exclude-editable >build/audit/installed.txt

format: venv
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Clients, clusters and Spark, one after the other, and units and models beside them (tests/stages.sh): all run,
# whatever fails.
test: venv
	@tests/tools.sh
	@tests/stages.sh $(BIN)/pytest

# Long rounds of what `make test` does briefly: storms of 50 members, 50 rounds of kills. Half an hour.
soak: venv
	HEADWATER_SOAK=1 tests/tools.sh
	HEADWATER_SOAK=1 $(BIN)/pytest -m soak

# Simulated brokers, clusters and clients. `make sim` runs random worlds of all kinds for a minute,
# `make sim WORLDS=10000 [JOBS=2]` so many of each, WORLD=… of one kind: logs, coordinators (groups and transactions),
# cluster, cluster-coordinators, cluster-storage (whose logs are trimmed or may lose).
# `make sim WORLD=… SEED=… STEPS=…` runs one again, and SHRINK=1 makes it smaller while it fails.
sim: venv
	@$(BIN)/python -m headwater.sim $(if $(WORLD),--world $(WORLD)) $(if $(SEED),--seed $(SEED)) $(if $(STEPS),--steps $(STEPS)) \
	    $(if $(LESS),--less $(LESS)) $(if $(SHRINK),--shrink) $(if $(WORLDS),--worlds $(WORLDS)) $(if $(FIRST),--first $(FIRST)) \
	    $(if $(JOBS),--jobs $(JOBS)) $(if $(SECONDS),--seconds $(SECONDS))

# The compiled codec of records, with every access to memory checked.
sanitize: venv
	PYTHON=$(BIN)/python tests/sanitize.sh

# Any bytes against the reader of records, the decoders of columns, the compiled paths and all handlers, led by what
# code they reach: SECONDS=… for each. What is found lies in build/fuzz as crash-*, and is run again by its name in
# place of the corpus (tests/hostile/fuzz). Gets atheris, for this alone.
fuzz: venv
	@test -d build/fuzz/atheris || $(BIN)/pip install --quiet --disable-pip-version-check --target build/fuzz/atheris 'atheris>=3'
	@for target in records columns schemas compiled requests; do \
	    echo "fuzzing $$target"; \
	    (cd build/fuzz && PYTHONPATH=$(CURDIR)/build/fuzz/atheris:$(CURDIR)/tests $(CURDIR)/$(BIN)/python -m hostile.fuzz $$target corpus/$$target \
	        -max_total_time=$(or $(SECONDS),300) -timeout=60 -rss_limit_mb=2000 -print_final_stats=1) || exit 1; \
	done
	@for target in sasl jaas; do \
	    echo "fuzzing $$target, the readers of logins and of sasl.jaas.config"; \
	    (cd build/fuzz && PYTHONPATH=$(CURDIR)/build/fuzz/atheris:$(CURDIR)/tests $(CURDIR)/$(BIN)/python -m hostile.fuzz $$target corpus/$$target \
	        -max_total_time=$(or $(SECONDS),300) -timeout=60 -rss_limit_mb=2000 -print_final_stats=1) || exit 1; \
	done

# One broken promise at a time, from mutants/*.patch: the tests must notice each of them.
mutants: venv
	$(BIN)/python mutants/run.py $(ONLY)

bench: venv
	$(BIN)/python -m bench

bench-peers: venv
	$(BIN)/python -m bench --peers
