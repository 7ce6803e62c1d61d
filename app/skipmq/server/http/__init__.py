"""HTTP/1.1 on the loop: the door, its connections, and the parser, without I/O."""
