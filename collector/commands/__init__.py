"""What the command line does beside starting the collector."""
