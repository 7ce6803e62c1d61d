"""The migrations of the app for tasks."""
