"""Videos of episodes: recording, captions, files, and what a policy looks at."""
