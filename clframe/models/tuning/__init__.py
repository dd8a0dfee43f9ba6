"""Parts of parameter-efficient tuning: modules added to a frozen network."""
