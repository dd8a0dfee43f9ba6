"""Models: a feature extractor and a head with one logit per output unit."""
