"""Tests of clframe; what several files share is in ``tests.helpers``."""
