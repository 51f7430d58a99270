# Each target does all its own set-up. PYTHON=python3.12 picks another interpreter.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.installed

.PHONY: install simulate test lint format starters clean help

help:  ## this list
	@grep -E '^[a-z]+:.*##' Makefile | sed 's/:.*## /\t/' | expand -t 12

install: $(READY)  ## a .venv with everything

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "swarm-node needs Python 3.11 or newer; try: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { \
		echo "this Python cannot make virtual environments; installing python3-venv"; \
		rm -rf $(VENV); \
		sudo=$$(test "$$(id -u)" = 0 || echo sudo); \
		$$sudo apt-get update -q && $$sudo apt-get install -qy python3-venv && $(PYTHON) -m venv $(VENV); }
	$(BIN)/pip install --disable-pip-version-check --editable '.[dev]'
	@touch $@

simulate: install  ## eight nodes that learn by sharing, beside eight that learn alone (a few minutes)
	$(BIN)/swarm-node simulate configs/simulate.toml --out runs/simulate --overwrite

test: install  ## the whole test suite
	$(BIN)/pytest -n 2 --dist loadfile

lint: install  ## style, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: install  ## put the code into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

starters: install  ## make the starter policies again
	$(BIN)/python -m swarm_node.starters.make

clean:  ## remove what make made
	rm -rf $(VENV) runs .pytest_cache .mypy_cache .ruff_cache .hypothesis
