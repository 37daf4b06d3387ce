package cshim

import (
	"sync"
	"sync/atomic"
)

// Library is a group of CANN's libraries that functions are looked for in.
type Library uint8

// Library groups.
const (
	ACL        Library = iota // the runtime: libascendcl, libacl_rt
	NNOp                      // tensors and executors: libnnopbase
	Op                        // operators: custom packages first, then libopapi and its parts
	HCCL                      // collectives: libhccl
	OpCompiler                // the older operator compiler: libacl_op_compiler
	Profiler                  // measurements for msprof: libmsprofiler
	Marks                     // marks and ranges for tools: libms_tools_ext
	Driver                    // management of devices, not part of CANN: libdcmi
	BLAS                      // linear algebra: libops_blas
	FFT                       // Fourier transforms: libcann_ops_fft
	Platform                  // what the platform files have about the chip: libplatform
	libraries
)

// Libraries are all groups.
func Libraries() []Library {
	return []Library{ACL, NNOp, Op, HCCL, OpCompiler, Profiler, Marks, Driver, BLAS, FFT, Platform}
}

// String is the name of the group's main library.
func (l Library) String() string {
	return [...]string{"libascendcl.so", "libnnopbase.so", "libopapi.so", "libhccl.so", "libacl_op_compiler.so", "libmsprofiler.so", "libms_tools_ext.so", "libdcmi.so", "libops_blas.so", "libcann_ops_fft.so", "libplatform.so"}[l]
}

// Func is a C function that is looked for when it is first needed. Make one per function,
// as a package variable; it is safe for concurrent use.
type Func struct {
	name    string
	library Library
	found   atomic.Uint64
	once    sync.Once
	err     error
}

// NewFunc names a C function; it looks for nothing yet.
func NewFunc(l Library, name string) *Func { return &Func{name: name, library: l} }

// Name is the C name.
func (f *Func) Name() string { return f.name }

// Available reports whether the function exists: nil, *SymbolError or *LibraryError.
func (f *Func) Available() error {
	_, err := f.address()
	return err
}

// address finds the function once and remembers the result, a failure included.
func (f *Func) address() (uint64, error) {
	if p := f.found.Load(); p != 0 {
		return p, nil
	}
	f.once.Do(func() {
		bindRuntime()
		p, err := resolve(f.library, f.name)
		f.err = err
		f.found.Store(p)
	})
	return f.found.Load(), f.err
}
