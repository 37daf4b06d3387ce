package kerneltest

// #include <stdlib.h>
import "C"

import (
	"fmt"
	"unsafe"
)

// margin is the number of guard bytes before and after a block of an Arena.
const margin = 64

// Arena is C memory in blocks that are freed together. It serves code that makes many short-lived
// views; New is more convenient for a few.
type Arena struct {
	blocks [][]byte // with their margins
}

// Block returns n bytes that are set to fill. Bytes beside them are guarded.
func (a *Arena) Block(n int64, fill byte) unsafe.Pointer {
	base := C.malloc(C.size_t(n + 2*margin))
	all := unsafe.Slice((*byte)(base), n+2*margin)
	for i := range all {
		all[i] = guard
	}
	for i := range all[margin : margin+n] {
		all[margin+i] = fill
	}
	a.blocks = append(a.blocks, all)
	return unsafe.Add(base, margin)
}

// Free frees all blocks. It returns an error if a byte beside a block was overwritten.
func (a *Arena) Free() (err error) {
	for _, all := range a.blocks {
		inner := len(all) - margin
		for i, b := range all {
			if b != guard && (i < margin || i >= inner) && err == nil {
				err = fmt.Errorf("byte %d of a block of %d bytes was written", i-margin, inner-margin)
			}
		}
		C.free(unsafe.Pointer(unsafe.SliceData(all)))
	}
	a.blocks = nil
	return err
}
