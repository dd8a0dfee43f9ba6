"""Reports of finished runs: figures, one HTML page and comparison tables.

Only run folders are read, so a report can be made on any machine that has the folder. What is read
is in `clframe/runs/reader.py`; then come `figures.py`, `html.py` and `compare.py`, and
`clframe/cli/report.py` is the command line. Nothing heavy is imported before a figure is drawn.
"""
