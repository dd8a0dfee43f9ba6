"""Tools that know nothing of continual learning."""
