# `make help` lists the targets. Rust comes from rustup (rust-toolchain.toml), Envoy from envoy/find-envoy.sh.

CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
WASM := $(TARGET)/wasm32-unknown-unknown/release/retry_budget.wasm
# Logged by the filter at start.
export RETRY_BUDGET_COMMIT := $(shell git rev-parse --short=12 HEAD 2>/dev/null)

.PHONY: toolchain build demo demo-live test test-matrix lint istio-golden bench image clean help envoy

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

toolchain: ## Install what rust-toolchain.toml names, unless it is there
	@./.ci/toolchain

build: toolchain ## The module and the native command retry-budget
	$(CARGO) build --locked --release --lib --target wasm32-unknown-unknown
	$(CARGO) build --locked --release --bin retry-budget
	@ls -l $(WASM) $(TARGET)/release/retry-budget

envoy: ## Find or fetch an Envoy and print its path
	@./envoy/find-envoy.sh

demo: build envoy ## Retry storms and a recovery on real Envoys, with and without the budget (RENEW=--renew: README's curves)
	$(CARGO) build --locked --quiet --package demo --bin demo --bin recovery
	@$(TARGET)/debug/demo
	@exec $(TARGET)/debug/recovery $(RENEW)

demo-live: build envoy ## The compose demo without containers; STAY=1 leaves the switches to you
	$(CARGO) build --locked --quiet --package demo --bin origin --bin storm --bin demo-live
	@exec $(TARGET)/debug/demo-live $(if $(STAY),--stay)

image: build ## The OCI image for Istio in target/image, and the digest to pin (needs umoci)
	@./istio/image/build.sh $(WASM) $(TARGET)/image

test: build envoy ## All tests, on a real Envoy
	$(CARGO) test --locked --workspace

# Istio 1.28 has Envoy 1.36, and so on to 1.31, which has 1.39.
test-matrix: build ## The Envoy tests on every Envoy that is supported
	@for version in 1.36.4 1.37.0 1.38.2 1.39.3 1.40.0; do \
		echo "Envoy $$version"; ENVOY_VERSION=$$version \
		$(CARGO) test --locked --quiet --test envoy --test control --test shipped --test istio_live || exit 1; done

lint: toolchain ## Formatting, lints, and no panics in src/
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	$(CARGO) clippy --locked --lib --target wasm32-unknown-unknown -- -D warnings
	@for module in grpc-go istio; do ( cd tests/$$module && \
		if GOWORK=off go list -m >/dev/null 2>&1; then \
			unformatted=$$(gofmt -l .); \
			if [ -n "$$unformatted" ]; then echo "gofmt -w is due in tests/$$module:" $$unformatted >&2; exit 1; fi; \
			GOWORK=off go vet ./...; \
		else echo "SKIPPED: tests/$$module is not linted, that needs Go $$(sed -n 's/^go //p' go.mod) or newer" >&2; fi ) || exit 1; done

istio-golden: build ## Render the Istio manifests anew (tests/istio/golden; needs Go and Istio's code)
	cd tests/istio && GOWORK=off RETRY_BUDGET_WASM=$(abspath $(WASM)) go test -count=1 ./... -update

bench: build envoy ## What the filter costs, against a control in the same run
	$(CARGO) build --locked --quiet --package lab --bin bench
	@$(TARGET)/debug/bench
	CARGO_PROFILE_DEV_OPT_LEVEL=2 RETRY_AFTER_FUZZ_RUNS=10000000 \
		$(CARGO) test --locked --test fuzz_retry_after -- --nocapture

clean: ## Remove what was built and fetched
	$(CARGO) clean
	rm -rf .envoy
