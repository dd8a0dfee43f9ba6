"""The real LIBERO environments (Liu et al., NeurIPS 2023), through the packages that make them."""
