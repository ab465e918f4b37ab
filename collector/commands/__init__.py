"""The commands of `misstep`, except for starting the collector."""
