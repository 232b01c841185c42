"""The executable specification."""
