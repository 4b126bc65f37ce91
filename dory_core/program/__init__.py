"""What generated code does, as data: operations, made from the Plan, printed and walked."""
