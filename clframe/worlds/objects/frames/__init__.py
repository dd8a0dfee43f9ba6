"""Frames of the OpenLORIS objects: rendered, or read from the published dataset, in a cache."""
