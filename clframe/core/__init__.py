"""The words of the domain: stream, learner, plugin, hook, registry, matrix, result."""
