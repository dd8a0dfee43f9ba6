"""Videos of episodes: recording, captions, files, and saliency."""
