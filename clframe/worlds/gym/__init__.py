"""Any Gymnasium environment, with its spaces flattened and its facts read."""
