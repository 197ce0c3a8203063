# Two commands matter: `make demo` and `make test`. Each does its own set-up; a second run is quick.
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
.DEFAULT_GOAL := help

.PHONY: help demo test lab lab-shell cluster bench lint types schema api rules figures setup clean

help:  ## what there is to run
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 18

demo: setup  ## four hosts, four rails each: attach, all-reduce, throttle a NIC, the probe names it, detach (root)
	@$(BIN)/python -m tests.demo

test: setup  ## every test that this machine can run (root)
	@$(BIN)/pytest -q -p no:cacheprovider -m "not bench" --benchmark-disable $(T)

lab: setup  ## the tests of tests/lab in a virtual machine with RDMA, SR-IOV and DCB (T=dcb: a part)
	@$(BIN)/python -m tests.lab $(T)

lab-shell: setup  ## a shell in that machine
	@$(BIN)/python -m tests.lab --shell

cluster: setup  ## a Kubernetes of two nodes from source, roceway on it (root; six minutes to build, eight to run)
	@$(BIN)/python -m tests.cluster $(T)

bench: setup  ## ours, the reference chain and `ip -batch`, alternating in one run (root)
	@$(BIN)/python -m tests.bench $(B)

lint: setup  ## ruff, import contracts
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/lint-imports

types: setup  ## mypy --strict
	@$(BIN)/mypy

schema: setup  ## write conf/fabric.schema.json from the model
	@$(BIN)/python -m conf.schema > conf/fabric.schema.json.new && mv conf/fabric.schema.json.new conf/fabric.schema.json

api: setup  ## write cni/agent/api/*_pb2.py from the .proto files
	@$(BIN)/python -m tests.cni.agent.generate

rules: setup  ## write docs/rules from the linter's declarations
	@$(BIN)/python -m tuner.lint.pages docs/rules

figures: setup  ## write docs/figures by simulation: how often the probe is right (minutes)
	@for page in judge locate; do $(BIN)/python -m nccltest.figures $$page > docs/figures/$$page.md.new && mv docs/figures/$$page.md.new docs/figures/$$page.md; done

setup:
	@.ci/setup

clean:  ## remove the venv and caches
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .benchmarks
