"""The actions: each runs a coroutine named after it."""
