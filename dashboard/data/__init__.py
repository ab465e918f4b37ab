"""What pages ask the collector for."""
