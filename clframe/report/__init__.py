"""Reports of finished runs: figures, one HTML page and comparison tables.

Only run folders are read, so a report can be made on any machine that has the folder. Start at
`runs.py` (what is read), then `figures.py`, `html.py` and `compare.py`; `command.py` is the
command line. Nothing heavy is imported before a figure is drawn.
"""
