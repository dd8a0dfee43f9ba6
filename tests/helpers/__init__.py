"""What several test files share: streams, fake devices, processes, browsers."""
