"""Run folders: write and read them."""
