"""Reports: they read run folders and import no training code."""
