package attention

import (
	"slices"
	"strings"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
)

// Limits of the kernels of a 910B.
const (
	groupLimit   = 64    // query heads that share a key head
	inferDims    = 512   // features of a head
	dimUnit      = 16    // features of a head, with several query tokens
	int8Dims     = 32    // the same where the query, the keys or the result are int8
	oddQueries   = 128   // sequences, if heads are no whole blocks of memory
	pageLimit    = 512   // tokens of a block
	pageUnit     = 16    // tokens of a block, with one query token or TND; twice as many in int8
	promptUnit   = 128   // tokens of a block otherwise
	rowLimit     = 65535 // features of all key heads of a token in a block
	queriesLimit = 65536 // sequences
)

// incremental reports whether CANN takes the kernel for one new token of each sequence.
func (a *inference) incremental() bool { return a.rows == 1 && !a.layout.packed() }

// checkSizes refuses the sizes that the kernels of a 910B do not take.
func (a *inference) checkSizes(c *op.Call) {
	fused := strings.HasPrefix(c.Op.Name, "Fused")
	whole := slices.Contains([]dtype.Type{a.query.DType, a.key.DType, a.out.DType}, dtype.Int8)
	unit := int64(dimUnit)
	if a.query.DType == dtype.Int8 {
		unit = int8Dims
	}
	switch {
	case a.batch > queriesLimit:
		c.Unfit("%v has %d sequences; %d are supported", a.query, a.batch, queriesLimit)
	case a.heads > maxHeads || a.keyHeads > maxHeads:
		c.Unfit("there are %d query heads and %d key heads; %d are supported", a.heads, a.keyHeads, maxHeads)
	case a.heads/a.keyHeads > groupLimit:
		c.Unfit("%d query heads share a key head; %d can", a.heads/a.keyHeads, groupLimit)
	case a.dim > inferDims:
		c.Unfit("D should be less than or equal to %d; it is %d in %v", inferDims, a.dim, a.query)
	case fused && !a.incremental() && whole && a.dim%int8Dims != 0:
		c.Unfit("D should be %d elements aligned when int8 is involved; it is %d in %v", int8Dims, a.dim, a.query)
	case strings.HasPrefix(c.Op.Name, "Prompt") && a.dim%unit != 0 && a.batch > oddQueries:
		c.Unfit("when D axis size(%d) is unaligned with 32 bytes, batch size(%d) can not be larger than %d: %v", a.dim, a.batch, oddQueries, a.query)
	case fused && !a.incremental() && a.dim%dimUnit != 0:
		c.Unfit("D should be %d elements aligned; it is %d in %v", dimUnit, a.dim, a.query)
	}
	if a.blocks != nil {
		a.checkPages(c)
	}
}

// checkPages checks the blocks of a paged cache.
func (a *inference) checkPages(c *op.Call) {
	unit := int64(pageUnit)
	if !a.incremental() && !a.layout.packed() {
		unit = promptUnit
	} else if a.key.DType == dtype.Int8 {
		unit *= 2
	}
	switch {
	case a.blockSize <= 0 || a.blockSize%unit != 0 || a.blockSize > pageLimit:
		c.Unfit("blockSize is %d; it must be a multiple of %d up to %d", a.blockSize, unit, pageLimit)
	case a.key.Rank() == 3 && a.key.Dim(2) > rowLimit:
		c.Unfit("a token of %v has %d features; at most %d are supported in this form of the cache", a.key, a.key.Dim(2), rowLimit)
	case a.key.Rank() == 4 && !a.layout.packed() && a.layout.name != "BNSD":
		c.Unfit("%v: with inputLayout %s the cache must be [blocks, blockSize, numKeyValueHeads*D]", a.key, a.layout.name)
	}
}
