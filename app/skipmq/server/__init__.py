"""The HTTP server: connections, the two doors (asyncio and Flask), and the answer to a request."""
