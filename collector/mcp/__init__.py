"""What an agent can ask: the query API as a few tools of the Model Context Protocol, read only."""
