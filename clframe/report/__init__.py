"""Reports of finished runs: figures, one HTML page and comparison tables.

Reports read only run folders, so any machine with the folder can make one. `clframe/runs/reader.py`
reads the folders. `run_page.py` and `comparison_page.py` define the content of a page as the plain
data of `page_blocks.py`, and `rendering.py` turns it into HTML with the templates in `templates/`.
Figures are in `figures.py`, `charts.py`, `spider.py`, `success.py` and `lifetime.py`, tables in
`compare.py` and `tables.py`; `clframe/cli/report.py` is the command. Nothing heavy is imported
before a figure is drawn.
"""
