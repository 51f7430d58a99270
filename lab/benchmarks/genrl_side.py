"""Where genrl is: it may live in another environment, and is then run by that one's interpreter."""

import argparse
import os
import sys
from importlib.util import find_spec

RECIPE = (
    "python3 -m venv GENRL && GENRL/bin/pip install gensyn-genrl==0.3.0 hivemind==1.1.12 reasoning-gym==0.1.25 "
    "'torch>=2.9,<2.14' 'transformers>=5,<6', then --genrl-python GENRL/bin/python"
)


def add_python(parser: argparse.ArgumentParser) -> None:
    """GENRL_PYTHON, else this interpreter if it has genrl."""
    default = os.environ.get("GENRL_PYTHON") or (sys.executable if find_spec("genrl") else None)
    parser.add_argument("--genrl-python", default=default, help="interpreter that has genrl; GENRL_PYTHON")
