"""Who may do what: tokens with their rights, projects and limits, signed-in people, and the log of what they did."""
