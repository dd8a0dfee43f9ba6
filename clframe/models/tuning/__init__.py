"""Parts of parameter-efficient tuning: what is put into a network whose own weights stay."""
