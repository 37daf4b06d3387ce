// Package compare measures the emulator beside other libraries. Its matrix products run beside those of oneDNN and
// OpenBLAS, which it loads where they are installed (Debian: libdnnl-dev, libopenblas-dev), and beside threads that only
// read memory; its other operators beside PyTorch's, which torch_operators.py times. Files kernel_* measure its
// kernels alone, runtime_call_test.go and dispatch_test.go what calls cost on the host.
package compare
