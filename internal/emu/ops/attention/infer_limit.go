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
	packedLimit  = 4096  // sequences of TND
	packedPages  = 128   // tokens of a block of TND, and of keys that all query heads share
	latentDims   = 512   // features of a key head that all query heads share, beside those that are rotated
	sharingHeads = 128   // query heads that share it
	ropeDims     = 64    // features that are rotated
	latentRows   = 16    // query tokens of a sequence with such a head
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
	case a.heads/a.keyHeads > groupLimit && a.queryRope == nil:
		c.Unfit("%d query heads share a key head; %d can", a.heads/a.keyHeads, groupLimit)
	case a.dim > inferDims:
		c.Unfit("D should be less than or equal to %d; it is %d in %v", inferDims, a.dim, a.query)
	case fused && !a.incremental() && whole && a.dim%int8Dims != 0:
		c.Unfit("D should be %d elements aligned when int8 is involved; it is %d in %v", int8Dims, a.dim, a.query)
	case strings.HasPrefix(c.Op.Name, "Prompt") && a.dim%unit != 0 && a.batch > oddQueries:
		c.Unfit("when D axis size(%d) is unaligned with 32 bytes, batch size(%d) can not be larger than %d: %v", a.dim, a.batch, oddQueries, a.query)
	case fused && !a.incremental() && a.dim%dimUnit != 0:
		c.Unfit("D should be %d elements aligned; it is %d in %v", dimUnit, a.dim, a.query)
	case !a.layout.packed() && a.valDim != a.dim && !(fused && a.longKeys()):
		c.Unfit("layout %s, queryD keyD valueD must be equal: %d in %v and %d in %v", a.layout.name, a.dim, a.key, a.valDim, a.value)
	}
	if a.blocks != nil {
		a.checkPages(c)
	}
}

// checkPages checks the blocks of a paged cache.
func (a *inference) checkPages(c *op.Call) {
	unit, limit := int64(pageUnit), int64(pageLimit)
	short := a.layout.packed() || a.latent()
	if short {
		limit = packedPages
	}
	if !a.incremental() && !short {
		unit = promptUnit
	} else if a.key.DType == dtype.Int8 {
		unit *= 2
	}
	switch {
	case a.blockSize <= 0 || a.blockSize%unit != 0 || a.blockSize > limit:
		c.Unfit("blockSize is %d; it must be a multiple of %d up to %d", a.blockSize, unit, limit)
	case a.tiled() && a.blockSize != packedPages:
		c.Unfit("blockSize(%d), MLA only support {%d} when KvCache layout is NZ: %v", a.blockSize, packedPages, a.key)
	case a.key.Rank() == 3 && a.key.Dim(2) > rowLimit:
		c.Unfit("a token of %v has %d features; at most %d are supported in this form of the cache", a.key, a.key.Dim(2), rowLimit)
	case a.key.Rank() == 4 && !a.layout.packed() && a.layout.name != "BNSD":
		c.Unfit("%v: with inputLayout %s the cache must be [blocks, blockSize, numKeyValueHeads*D]", a.key, a.layout.name)
	}
}

// longKeys reports whether keys have the rotated features at their end, which values lack.
func (a *inference) longKeys() bool { return a.dim == 192 && a.valDim == 128 }

// latent reports whether all query heads share a key head, whose rotated features lie apart.
func (a *inference) latent() bool { return a.queryRope != nil && a.dim == latentDims }

// checkPacked checks what sequences that follow each other have to be.
func (a *inference) checkPacked(c *op.Call) {
	if !a.layout.packed() {
		return
	}
	mode, last := a.mask.mode, a.items[len(a.items)-1]
	fits := a.dim == a.valDim && slices.Contains([]int64{64, 128, 192}, a.dim) || a.longKeys()
	switch {
	case a.batch > packedLimit:
		c.Unfit("Array length of the query's actual sequence lengths(%d) must be less than or equal to %d when input layout is TND", a.batch, packedLimit)
	case last.row+last.rows != a.rows:
		c.Unfit("When layout is TND, queryT(%d) must be equal to the last element of actualSequenceLengthQ(%d)", a.rows, last.row+last.rows)
	case a.blocks == nil && last.col+last.cols != a.cols:
		c.Unfit("When layout is TND, keyT(%d) must be equal to the last element of actualSeqenceLengthKV(%d)", a.cols, last.col+last.cols)
	case mode != sparseDense && mode != sparseRight && mode != sparseBand:
		c.Unfit("When Layout is TND, sparseMode only support 0,3 or 4, but sparseMode = %d", mode)
	case (mode == sparseDense) != (a.mask.tensor == nil):
		c.Unfit("When Layout is TND, sparseMode = 0 not support attentionMask, and the others need one: sparseMode is %d", mode)
	case a.queryRope == nil && !fits:
		c.Unfit("When layout is TND, queryD(%d) and valueD(%d) must be same equal 192/128/64, or queryD equal 192 and valueD equal 128", a.dim, a.valDim)
	case mode == sparseBand && a.mask.pre+a.mask.next < 0:
		c.Unfit("The sum of preTokens[%d] and nextTokens[%d] must be greater than or equal to 0", a.mask.pre, a.mask.next)
	}
	for i, it := range a.items {
		switch {
		case mode == sparseRight && it.rows > it.cols:
			c.Unfit("When layout is TND and sparse = 3 ,Batch[%d], need s1[%d] <= s2[%d]", i, it.rows, it.cols)
		case mode == sparseBand && it.rows > 0 && it.cols > 0 && (a.mask.pre+it.rows < 0 || a.mask.next+it.cols < 0):
			c.Unfit("Batch[%d], actualSeqLen[%d] + preTokens[%d] and actualSeqLenKv[%d] + nextTokens[%d] must be greater than or equal to 0", i, it.rows, a.mask.pre, it.cols, a.mask.next)
		}
	}
}

// checkRope checks heads with rotated features beside the others.
func (a *inference) checkRope(c *op.Call) {
	if a.queryRope == nil {
		return
	}
	latent := a.latent()
	switch {
	case a.ropeDim != ropeDims || a.valDim != a.dim || !latent && a.dim != ropeDims*2:
		c.Unfit("queryRopeD(%d) must be %d, and queryD(%d) and valueD(%d) %d or %d", a.ropeDim, ropeDims, a.dim, a.valDim, ropeDims*2, latentDims)
	case latent && (a.keyHeads != 1 || a.heads > sharingHeads || a.heads&(a.heads-1) != 0):
		c.Unfit("queryD(%d) with queryRope needs one key head, and 1, 2, 4 or more query heads up to %d: there are %d and %d", a.dim, sharingHeads, a.keyHeads, a.heads)
	}
	for i, it := range a.items {
		if latent && it.rows > latentRows {
			c.Unfit("sequence %d has %d query tokens; with queryRope and D of %d it may have %d", i, it.rows, latentDims, latentRows)
		}
	}
}
