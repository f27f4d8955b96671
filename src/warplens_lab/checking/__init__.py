"""What `warplens kernel check` answers: facts and suggestions of each compilation, and configs ranked."""
