// Package rivals measures the emulator's matrix products beside those of oneDNN and OpenBLAS,
// which it loads where they are installed (Debian: libdnnl-dev, libopenblas-dev), and beside threads that only read memory.
package rivals
