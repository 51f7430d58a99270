"""Studies whose results are in docs/results: `python -m studies.sharing` and its like."""
