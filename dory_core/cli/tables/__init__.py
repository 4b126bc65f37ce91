"""Tables for the terminal, printed only from the JSON documents."""
