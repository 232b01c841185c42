"""lean_nn."""
