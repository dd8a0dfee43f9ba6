"""Rendered objects in rooms: the stand-in for the frames of OpenLORIS-Object."""
