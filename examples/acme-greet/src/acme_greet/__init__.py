"""Step types for flo: greetings, and cards that are sent once."""
