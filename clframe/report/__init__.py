"""Reports of finished runs: figures, one HTML page and comparison tables.

Only run folders are read, so a report can be made on any machine that has the folder. What is read
is in `clframe/runs/reader.py`; `run_page.py` and `comparison_page.py` say what a page shows, as the
plain data of `blocks.py`, and `rendering.py` makes HTML of it by the templates in `templates/`.
Figures are in `figures.py`, `charts.py`, `spider.py`, `success.py` and `lifetime.py`, tables in
`compare.py` and `tables.py`; `clframe/cli/report.py` is the command line. Nothing heavy is imported
before a figure is drawn.
"""
