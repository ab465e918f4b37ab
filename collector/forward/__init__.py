"""A copy of every accepted OTLP request to one more OTLP endpoint. Imported only where `MISSTEP_FORWARD` is set."""
