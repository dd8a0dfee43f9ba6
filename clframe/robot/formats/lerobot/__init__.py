"""LeRobotDataset v3.0 (Hugging Face LeRobot), written and read with only pyarrow.

``meta/info.json`` lists the features, ``data/chunk-000/file-000.parquet`` holds them row by row,
``meta/episodes`` maps rows to episodes, ``meta/tasks.parquet`` holds the instructions and
``meta/stats.json`` the statistics. Images are embedded in the Parquet file (``image``), or stored
in ``videos/`` as MP4 (``video``, with the package av). Our own metadata (names of tasks, seeds) is
in ``meta/clframe.json``, which other readers ignore.
"""
