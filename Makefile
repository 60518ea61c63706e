# One verb for everything that is done here; CI calls the same. `make` lists them.
#
# Unit tests, cases and demo share the dev build, and the cases run with overflow checks and debug assertions on, which release would leave out. A part of the cases
# runs the programs that ship: in `make test` always, else with SHIPPED=1.
# Cargo calls say --workspace, or both packages of `compile`: with other sets cargo resolves other features and compiles dependencies again. These two share all that
# they compile (e2e/src/builds_tests.rs).

SHELL := /bin/bash
.DEFAULT_GOAL := help

# The folder into which cargo compiles.
compiled = $(or $(CARGO_TARGET_DIR),target)
# The programs and the runner, without the model.
compile = cargo build --package podgroup --package e2e --bins
# The folder of the two programs that cases and demo run.
BIN ?= $(compiled)/debug
CASE ?=
WORLD ?=
REPEAT ?= 1
# Cases mostly wait for others, each in a cluster of its own: one costs about 6 s of a core in 15 s.
JOBS ?= 3
# So many programs compute all the time beside the cases, to see which deadlines are too short for a busy machine.
BUSY ?= 0
TIMES ?= 5
MINUTES ?= 60
# The cases of `make operators`.
OPERATORS = E1 E2 E3 E4 E4-leader-ready E5 E6
# The minors of Kubernetes before the usual one (e2e/tools/kubernetes-*), and the cases that run there: one and more of each kind that depends on the API server.
KUBERNETES ?= 1.35 1.34
VERSIONS = C6 C7 L1 O3-job-page A7 Q1 Q6 T1 V5 P1 K9 U6
# In a soak: so many random cases for each minute of it, and never fewer than a number.
more = $$(( $(MINUTES) * $1 > $2 ? $(MINUTES) * $1 : $2 ))
# For a soak: the library optimized, with overflow checks and debug assertions. It takes five times as long to compile, and its tests half as long to run.
OPTIMIZED = --config profile.dev.package.podgroup.opt-level=1
SEED ?=
# For `make mutants`: the files that are changed, as globs (by default all of the pure rooms, which is 2,600 mutants and a night), and a part of the mutants, as 0/4.
FILES ?= src/accounting/** src/cycle/** src/lifecycle/** src/resources/**
SHARD ?=
# Tests that draw their cases, by a part of their names. They take longest, and a mutant that they alone detect lacks a small test. SKIP= runs them, too.
SKIP ?= differential:: propert
# The rooms of these files; a room's own tests look for its mutants.
rooms = $(sort $(foreach file,$(FILES),$(word 2,$(subst /, ,$(file)))))
# For the Go programs of the control plane. The cluster of a case lives for half a minute: with Go's default of 100, a fifth of its processor time is garbage collection.
GO_MEMORY = GOGC=1000 GOMEMLIMIT=2GiB
# Where cluster-up puts its cluster.
PODGROUP_CLUSTER ?= $(CURDIR)/.cluster/up
# The runner. Case D1 types the verbs of docs/getting-started.md from inside of it: with itself, with PODGROUP_BUILT=1 (nothing is compiled), and with a PODGROUP_CLUSTER of its own.
PODGROUP_E2E ?= $(compiled)/debug/e2e
PODGROUP_BUILT ?=
# 1: the programs that ship are brought up to date, and a part of the cases runs them. Without CASE that is the default; one case is to start in seconds.
SHIPPED ?= $(if $(CASE),,1)
# What ships: the static programs of `make dist` on x86-64 Linux, elsewhere those of `make build`. Case C11 packs the same programs.
ifeq ($(shell uname -sm),Linux x86_64)
shipped_folder = $(shell bash release/dist.sh folder)
build_shipped = bash release/dist.sh programs
else
shipped_folder = $(compiled)/release
build_shipped = cargo build --release -p podgroup --bins
endif
RUNNER = PODGROUP_BIN_DIR=$(BIN) $(if $(SHIPPED),PODGROUP_SHIPPED_DIR=$(shipped_folder)) $(PODGROUP_E2E)

.PHONY: help demo demo-down screenshots test unit scenarios scenario observer unit-build mutants format lints model e2e operators versions soak takeover load check bench bench-kube-scheduler bench-e2e generate cluster-up cluster-down tools tools-path build prerequisites model-build provisioner jobset debug-build shipped dist image

help: ## lists the verbs
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## a local control plane, both programs and four steps, each checked; builds what it needs, says how long that takes, and stays up with a gang that waits (DEMO_KEEP=0: does not)
	@bash e2e/tools/demo.sh env $(RUNNER) demo $(if $(filter 0,$(DEMO_KEEP)),--down)

demo-down: ## takes the demo's cluster down
	@bash e2e/src/reaper.sh $(CURDIR)/.cluster/demo 1 </dev/null

# The cluster ends whatever happens.
screenshots: tools debug-build ## docs/images: the chart's dashboards, drawn from a real Prometheus after a load of 11 minutes (needs Chromium, Node.js and npm)
	npm --prefix e2e/tools/panels ci --silent --ignore-scripts
	@$(RUNNER) cluster-up --with-programs --folder $(CURDIR)/.cluster/screenshots >/dev/null
	@bash e2e/tools/panels/screenshots.sh $(CURDIR)/.cluster/screenshots docs/images 11; status=$$?; \
		bash e2e/src/reaper.sh $(CURDIR)/.cluster/screenshots 1 </dev/null; exit $$status

test: ## everything: format, lints, unit and property tests, the cases on the real control plane; each part says its time (e2e/tools/test.sh)
	@MAKE='$(MAKE)' bash e2e/tools/test.sh

# cargo shows the output of failed tests only, so the seed of the run is chosen and printed here.
unit: tools ## unit and property tests, with a new seed each time, which is printed (PODGROUP_TEST_SEED=7 repeats it)
	@seed=$${PODGROUP_TEST_SEED:-$$(od -An -N8 -tu8 /dev/urandom | tr -d ' ')} && echo "PODGROUP_TEST_SEED=$$seed" && export PODGROUP_TEST_SEED=$$seed && \
		cargo test --workspace --no-fail-fast

scenarios: prerequisites ## the text scenarios (scenarios/README.md): both programs whole, on an API server in memory and a paused clock; seconds (ONLY=queues/)
	cargo test --workspace --test scenarios -- $(ONLY)

scenario: prerequisites ## one text scenario (FILE=scenarios/queues/my_rule.txt)
	cargo build --quiet --workspace --bin podgroup-scenarios
	$(compiled)/debug/podgroup-scenarios $(FILE)

observer: tools ## the observer's own tests on a real control plane
	cargo test --workspace --test observer -- --include-ignored

unit-build: prerequisites
	cargo test --workspace --no-run

# Each mutant is compiled in a copy of the tree. Its target directory is its own: cargo would take what a copy compiled for what the tree compiles.
mutants: prerequisites ## changes the pure rooms, one expression at a time, and says which changes no test detects (FILES='src/accounting/fits.rs' SHARD=0/4); about 15 s for each mutant
	@command -v cargo-mutants >/dev/null || { echo 'missing: cargo install --locked cargo-mutants' >&2; exit 1; }
	CARGO_TARGET_DIR=$(CURDIR)/target/mutants CARGO_PROFILE_DEV_DEBUG=0 PODGROUP_DIFFERENTIAL_HISTORIES=100 nice -n 19 cargo mutants --package podgroup --jobs 1 --output target \
		$(foreach file,$(FILES),--file '$(file)') $(if $(SHARD),--shard $(SHARD)) -- -- $(addsuffix ::,$(rooms)) $(foreach part,$(SKIP),--skip $(part))

model: model-build ## the exhaustive models of a PodGroup's life and of the handover, all worlds and mutants (minutes; docs/design/model.md; WORLD=handover, small, large, or a part of a world's name)
	$(compiled)/debug/podgroup-model $(WORLD)

e2e: tools $(if $(CASE),,provisioner jobset) debug-build shipped ## the cases on the real control plane (CASE=L1 for one, REPEAT=10, JOBS=1, BUSY=3: beside three programs that compute)
	@bash e2e/tools/busy.sh $(BUSY) env $(GO_MEMORY) $(RUNNER) run $(foreach case,$(CASE),--case $(case)) --repeat $(REPEAT) --jobs $(JOBS)

# Each case builds its operator where the cache has none (e2e/tools/operators.sh). E2-whole, a part of E2, is in `make e2e`.
operators: tools debug-build ## operators of other projects against both programs, each built from its Go module once, in minutes (CASE=E1 for one)
	@$(RUNNER) run $(foreach case,$(or $(CASE),$(OPERATORS)),--case $(case)) --repeat $(REPEAT)

versions: tools debug-build ## a short suite on the two minors of Kubernetes before the usual one, each built once, in about 6 minutes (KUBERNETES=1.35, CASE=L1 for one, JOBS=1)
	@failed=0; for minor in $(KUBERNETES); do \
		kit=$$(bash e2e/tools/kubernetes.sh $$minor) && echo "Kubernetes $$("$$kit/kube-apiserver" --version | cut -d' ' -f2)" && \
		PODGROUP_KIT=$$kit $(RUNNER) run $(foreach case,$(or $(CASE),$(VERSIONS)),--case $(case)) --repeat $(REPEAT) --jobs $(JOBS) || failed=1; \
	done; exit $$failed

takeover: tools debug-build ## how long nobody is there when the controller's leader goes (TIMES=5 for each way)
	@$(RUNNER) takeover --repeat $(TIMES)

# All random tests draw from one seed, which they print; PODGROUP_TEST_SEED repeats it.
soak: SHIPPED = 1
soak: tools $(if $(CASE),,provisioner) debug-build $(if $(CASE),,model-build) shipped ## the random tests with many times the cases of `make test`, the large worlds of the models, the suites of `make versions` and `make operators`, then every case under faults again and again, new seeds each time (MINUTES=60, SEED=…, JOBS=1); with CASE these cases alone (CASE=K12-600 JOBS=1: two replicas of both programs on a full cluster)
ifeq ($(CASE),)
	PODGROUP_DIFFERENTIAL_HISTORIES=$(call more,500,8000) PODGROUP_DIFFERENTIAL_RECLAIMS=$(call more,200,2000) PODGROUP_TEST_TIMES=$(MINUTES) \
		cargo test --workspace $(OPTIMIZED) --lib -- --nocapture
	$(compiled)/debug/podgroup-model large
	@$(MAKE) --no-print-directory versions
	@$(MAKE) --no-print-directory operators
endif
	@$(RUNNER) soak --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) --jobs $(JOBS) $(foreach case,$(CASE),--case $(case))

check: format lints ## format and lints

format: prerequisites
	cargo fmt --all --check

lints: prerequisites
	cargo clippy --workspace --all-targets -- -D warnings

# The release binaries that ship, and a release runner: a flood by a slow client would flatter the controller.
load: tools build ## measures the controller under load (DEPLOYMENTS=2000 ROUNDS=5 CROWD=10000 IDLE=60 ONLY=race|burst WORKERS='8 32'); about 10 minutes
	cargo build --release -p e2e
	@PODGROUP_BIN_DIR=$(compiled)/release $(compiled)/release/e2e load $(if $(DEPLOYMENTS),--deployments $(DEPLOYMENTS)) $(if $(ROUNDS),--rounds $(ROUNDS)) \
		$(if $(CROWD),--crowd $(CROWD)) $(if $(IDLE),--idle $(IDLE)) $(if $(ONLY),--only $(ONLY)) $(foreach number,$(WORKERS),--workers $(number)) $(foreach flag,$(FLAGS),--controller-flag=$(flag))

bench: prerequisites ## decisions per second, in process; about 10 minutes (ONLY=gangs)
	cargo bench --workspace --bench decisions -- $(ONLY)

bench-kube-scheduler: tools ## decisions per second of kube-scheduler's own plugins, for the pods of `make bench`; a few minutes (SECONDS_EACH=3)
	@"$$(bash e2e/tools/build.sh --path)/oracle" speed $(or $(SECONDS_EACH),3)

# As for load: what ships, and a release client.
bench-e2e: tools build ## how fast pods come to their nodes, beside kube-scheduler and a raw flood (NODES=1000 PODS=3000 RUNNING=20000 ROUNDS=2 SECONDS_EACH=60 DEPLOYMENTS=100 ONLY='rate constraints trickle writes claims full full-claims'); about 30 minutes
	cargo build --release -p e2e
	@PODGROUP_BIN_DIR=$(compiled)/release $(compiled)/release/e2e bench $(if $(NODES),--nodes $(NODES)) $(if $(PODS),--pods $(PODS)) $(if $(RUNNING),--running $(RUNNING)) \
		$(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(SECONDS_EACH),--seconds $(SECONDS_EACH)) $(if $(DEPLOYMENTS),--deployments $(DEPLOYMENTS)) $(foreach part,$(ONLY),--only $(part))

generate: prerequisites ## writes crds/ and the chart's copies from the Rust types, the table of the chart's values, and the tables of flags and codes in docs/reference.md
	cargo build --quiet --workspace --example generate-crds --example generate-chart-readme
	$(compiled)/debug/examples/generate-crds
	$(compiled)/debug/examples/generate-chart-readme
	PODGROUP_GENERATE=1 cargo test --quiet --workspace --lib documents_tests::every_

cluster-up: ## a cluster to play with, chart installed, both programs running (PROGRAMS=0: bare); builds what it needs
	@bash e2e/tools/demo.sh
	@$(RUNNER) cluster-up --folder $(abspath $(PODGROUP_CLUSTER)) $(if $(filter 0,$(PROGRAMS)),,--with-programs)

cluster-down: ## takes that cluster down
	@bash e2e/src/reaper.sh $(abspath $(PODGROUP_CLUSTER)) 1 </dev/null

tools: prerequisites ## builds the control plane's programs, kube-scheduler and the oracle where they are missing
	@bash e2e/tools/build.sh

tools-path: ## prints the folder of the control plane's programs, kubectl and helm among them, and builds them where they are missing
	@bash e2e/tools/prerequisites.sh demo
	@bash e2e/tools/build.sh control-plane
	@bash e2e/tools/build.sh --path control-plane

build: prerequisites ## release binaries in target/release
	cargo build --release -p podgroup --bins

dist: tools ## static programs, image, chart and checksums in dist/ (release/dist.sh; the version of Cargo.toml)
	@bash release/dist.sh

image: tools ## the image alone, from the static programs that `make dist` has built
	@bash release/dist.sh image

prerequisites:
	@bash e2e/tools/prerequisites.sh

# Before the cases, so that no compiler runs beside them. Rows V9 to V13 use it, and build it where it is missing.
provisioner: tools
	@bash e2e/tools/operators.sh local-path-provisioner >/dev/null

# The same for row E2-whole.
jobset: tools
	@bash e2e/tools/operators.sh jobset >/dev/null

shipped: prerequisites
	$(if $(SHIPPED),$(if $(PODGROUP_BUILT),,$(build_shipped)))

debug-build: prerequisites
	$(if $(PODGROUP_BUILT),,$(compile))

model-build: prerequisites
	$(if $(PODGROUP_BUILT),,cargo build --workspace --bins)
