"""The doors: HTTP and gRPC, their limits and answers. Nothing behind them knows either."""
