"""Records of a run while it runs: logged values, media and results.json."""
