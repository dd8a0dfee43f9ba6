"""What a run records on the way: logged values, media and results.json."""
