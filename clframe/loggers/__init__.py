"""Where numbers go during a run, by name: Lightning loggers."""
