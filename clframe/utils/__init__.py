"""Tools that are independent of continual learning."""
