"""What goes to other backends: copies of accepted OTLP requests, and verdicts as scores for Langfuse. Imported only
where settings name such a backend.
"""
