"""Several processes that learn one run."""
