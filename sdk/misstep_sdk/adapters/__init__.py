"""A few lines for each framework; a module imports its framework, so import only the one that you use."""
