"""Data that comes with the package; see NOTICE for its origin and licence."""
