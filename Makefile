# `make` or `make help` lists the targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SCALE ?= mini
SOURCE ?=
TASKS ?=
OVERRIDES ?=
SEEDS ?= 42
LAUNCHER ?=
QUICK ?=
# The CUDA build of torch: TORCH_INDEX is a package index beside your own that has it, TORCH another version (README.md).
TORCH_INDEX ?=
TORCH ?= $(shell sed -n 's/^torch==//p' constraints.txt)

# Embedded data asks no network. The paper's scale and other sources may fetch, and your own variable goes first.
ifeq ($(filter paper,$(SCALE))$(filter-out embedded,$(SOURCE)),)
export HF_HUB_OFFLINE ?= 1
endif

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-slow test-faults test-slurm docs check notebook bench reproduce-all reproduce-energy reproduce-field reproduce-decoders plan-all claims report clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-zA-Z%-]+:.*## / {printf "  %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## make .venv with everything the tests need (TORCH_INDEX=https://... TORCH=2.13.0 for CUDA: README.md)

PINS := $(VENV)/constraints.txt
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c $(PINS)

# The oracle (spikingjelly) goes in without its dependencies: it asks for torchvision, which no CPU build of
# torch can load and which then breaks transformers.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	sed 's/^torch==.*/torch==$(TORCH)/' constraints.txt > $(PINS)
	$(PIP) $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) torch
	$(PIP) -e ".[dev]" loguru
	$(PIP) --no-deps spikingjelly
	touch $@

demo: $(READY) ## set up, then train and measure a spiking BERT on embedded data (minutes, offline)
	$(BIN)/spikelm-run task=glue/sst2 neuron=bispike k=2

test: $(READY) ## set up, then run the tests
	$(BIN)/pytest -n 2 -m "not slow"

test-slow: $(READY) ## the tests that take minutes
	$(BIN)/pytest -m "slow and not faults"

test-faults: $(READY) ## kill, fill, damage and starve real runs (a quarter of an hour on two free cores; docs/internals/reliability.md)
	$(BIN)/pytest -m faults tests/faults -v

test-slurm: $(READY) ## sweeps on a Slurm of one node (apt-get install slurm-wlm munge; also part of test-faults)
	$(BIN)/pytest -m faults tests/faults/test_slurm_sweeps.py -v

docs: $(READY) ## build the documentation as a site: build/docs/index.html (every link and anchor is checked)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

check: $(READY) ## lint, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

notebook: $(READY) ## write examples/spiking_bert.ipynb anew from the script beside it, and run it
	$(BIN)/jupytext --to ipynb examples/spiking_bert.py
	$(BIN)/jupyter execute --inplace examples/spiking_bert.ipynb

bench: $(READY) ## speed and memory as ratios (QUICK=1 for the short form)
	$(BIN)/python -m benchmarks $(if $(QUICK),--quick)

# SCALE=minilm SOURCE=local TASKS=glue/rte,glue/cola OVERRIDES="source.root=DIR finetune.lr=3e-4"
TABLE_OPTIONS = --scale $(SCALE) --seeds $(SEEDS) $(if $(SOURCE),--source $(SOURCE)) $(if $(TASKS),--tasks $(TASKS)) $(OVERRIDES)

RUN_OPTIONS = $(TABLE_OPTIONS) $(if $(LAUNCHER),--launcher $(LAUNCHER))

reproduce-table%: $(READY) ## run what a table needs and print it (SCALE= SOURCE= SEEDS=1,2 LAUNCHER=basic|parallel|slurm TASKS=glue/rte OVERRIDES="k=3")
	$(BIN)/spikelm-report reproduce table$* $(RUN_OPTIONS)

reproduce-fig%: $(READY) ## run what a figure needs and draw it (2 to 8; reproduce-energy: score against energy)
	$(BIN)/spikelm-report reproduce fig$* $(RUN_OPTIONS)

reproduce-energy: $(READY)
	$(BIN)/spikelm-report reproduce energy $(RUN_OPTIONS)

reproduce-field: $(READY) ## codes of the field and quantised plain models, as a table and a figure (docs/guide/field.md)
	$(BIN)/spikelm-report reproduce field $(RUN_OPTIONS)

reproduce-decoders: $(READY) ## spiking and quantised language models by perplexity and energy, as a table and a figure (docs/guide/decoders.md)
	$(BIN)/spikelm-report reproduce decoders $(RUN_OPTIONS)

reproduce-all: $(READY) ## every table, figure and claim of the paper at this SCALE
	$(BIN)/spikelm-report reproduce all $(RUN_OPTIONS)

plan-all: $(READY) ## what reproduce-all would run, and about how long
	$(BIN)/spikelm-report reproduce all --plan $(RUN_OPTIONS)

claims: $(READY) ## the paper's statements, checked on the runs there are
	$(BIN)/spikelm-report claims $(TABLE_OPTIONS)

report: $(READY) ## list the runs and write the page: runs/report/index.html
	$(BIN)/spikelm-report

clean: ## remove the environment and caches; runs stay
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
	find . -name __pycache__ -not -path './runs/*' -prune -exec rm -rf {} +

.PHONY: gpu-check
gpu-check: $(READY) ## ten minutes on one GPU: does it compute what the CPU computes, how fast (QUICK=1, DEVICE=cpu; docs/guide/doctor.md)
	$(BIN)/spikelm-doctor --check $(if $(QUICK),--quick) $(if $(DEVICE),--device $(DEVICE)) --json runs/gpu-check.json
