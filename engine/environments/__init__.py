"""What the owner of the engine set up: environments and connections, wherever they lie."""
