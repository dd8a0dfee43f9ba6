"""Several learners trained as one model with a first dimension of seeds."""
