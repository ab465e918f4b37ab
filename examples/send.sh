#!/bin/sh
# One failed call as plain JSON, for programs without OpenTelemetry:  examples/send.sh [COLLECTOR]
curl --silent --show-error --fail "${1:-http://127.0.0.1:4318}/v1/events" --header 'Content-Type: application/json' --data '{
  "service": "shell-agent", "session": "1", "tool": "read_file", "outcome": "error", "message": "no such file: notes.txt",
  "params": {"path": "notes.txt"}
}'
