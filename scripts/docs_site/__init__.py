"""Pages of the documentation that are made while the site is built, never by hand."""
