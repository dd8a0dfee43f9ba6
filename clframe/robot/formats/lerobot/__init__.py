"""LeRobotDataset v3.0 (Hugging Face LeRobot), written and read with pyarrow alone.

``meta/info.json`` says which features there are, ``data/chunk-000/file-000.parquet`` holds them
row by row, ``meta/episodes`` says which rows are which episode, ``meta/tasks.parquet`` holds the
instructions and ``meta/stats.json`` the statistics. Images are embedded in the Parquet file
(``image``), or are in ``videos/`` as MP4 (``video``, with the package av). What we know beyond that
(names of tasks, seeds) is in ``meta/clframe.json``, which others pass over.
"""
