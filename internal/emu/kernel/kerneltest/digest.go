package kerneltest

import (
	"encoding/binary"
	"fmt"
	"hash"
	"hash/fnv"
	"math"
)

// Digest is a hash of the bits of numbers.
type Digest struct{ sum hash.Hash64 }

// NewDigest returns the digest of no numbers.
func NewDigest() Digest { return Digest{fnv.New64a()} }

// Add appends a number. All NaN count as one, whose bits depend on the CPU.
func (d Digest) Add(x float64) {
	if x != x {
		x = math.NaN()
	}
	_, _ = d.sum.Write(binary.LittleEndian.AppendUint64(nil, math.Float64bits(x))) // cannot fail
}

// String returns 16 hexadecimal digits.
func (d Digest) String() string { return fmt.Sprintf("%016x", d.sum.Sum64()) }
