"""Where numbers go while a run is going on, by name: Lightning loggers."""
