// A shared library that is no plug-in.

extern "C" int capture_targets() { return 0; }
