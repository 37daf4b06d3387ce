package ops

import (
	"context"
	"slices"

	"github.com/goascend/cann/aclnn"
)

// Groups divides consecutive rows into groups, such as the tokens of each expert. Set either Device
// or Host; groups may be empty.
type Groups struct {
	// Device is [groups], int64 or int32. Only the running kernel can read it: rows beyond the sum
	// of the sizes are not written, and a sum beyond the number of rows is an error of the stream.
	Device *aclnn.Tensor
	// Host is checked before launch: the sizes must add up to the number of rows.
	Host []int64
	// Cumulative says that entry g is the end of group g, not its size.
	Cumulative bool
}

// Len returns the number of groups.
func (g *Groups) Len() int64 {
	if g.Device != nil {
		return g.Device.Dim(0)
	}
	return int64(len(g.Host))
}

// validate checks that the list divides the rows into want groups.
func (g *Groups) validate(c *args, want, rows int64) {
	if c.Err != nil {
		return
	}
	if (g.Device == nil) == (g.Host == nil) {
		c.Fail("Groups needs one of Device and Host")
		return
	}
	if c.Optional("Groups.Device", g.Device, indices...) && g.Device.Rank() != 1 {
		c.Fail("Groups.Device is %v; it must be [groups]", g.Device)
	}
	if c.OK() && g.Len() != want {
		c.Fail("Groups has %d groups, the weight %d", g.Len(), want)
	}
	if g.Host == nil || !c.OK() {
		return
	}
	sum := int64(0)
	for i, n := range g.Sizes() {
		// Refuse a size beyond the rows at once, so that the sum cannot overflow.
		if n < 0 || n > rows {
			c.Fail("group %d of Groups.Host has %d of the %d rows (Cumulative is %v); are the entries sizes, or running sums?", i, n, rows, g.Cumulative)
			return
		}
		sum += n
	}
	if sum != rows {
		c.Fail("Groups.Host holds %d rows, X has %d (Cumulative is %v)", sum, rows, g.Cumulative)
	}
}

// Sizes returns the sizes of the groups of a host list, nil for a list on the device.
func (g *Groups) Sizes() []int64 {
	sizes := slices.Clone(g.Host)
	if g.Cumulative {
		for i := len(sizes) - 1; i > 0; i-- {
			sizes[i] -= sizes[i-1]
		}
	}
	return sizes
}

// list returns the group list as an int64 tensor, cumulative if asked for, otherwise in the form
// that it has.
func (g *Groups) list(ctx context.Context, s *steps, cumulative bool) *aclnn.Tensor {
	cumulative = cumulative && !g.Cumulative
	if g.Device == nil {
		values := g.Host
		if cumulative {
			values = slices.Clone(values)
			for i := 1; i < len(values); i++ {
				values[i] += values[i-1]
			}
		}
		t := s.Tensor(aclnn.Int64, int64(len(values)))
		s.Do(func() error { return aclnn.CopyToDevice(ctx, s.Stream, t, values) })
		return t
	}
	if !cumulative {
		return s.Contiguous(s.Cast(g.Device, aclnn.Int64))
	}
	// CANN adds up int64 on the slow AI CPU. Rows can be counted in int32.
	sums := s.Tensor(aclnn.Int32, g.Device.Dim(0))
	launch(s, aclnn.Cumsum, aclnn.CumsumParams{Self: s.Cast(g.Device, aclnn.Int32), Dim: 0, Dtype: aclnn.Int32, Out: sums})
	return s.Cast(sums, aclnn.Int64)
}

// Values of groupListType.
const (
	runningSums = aclnn.GroupListCumsum
	groupSizes  = aclnn.GroupListCount
)

// listType returns CANN's number for the form of the list.
func (g *Groups) listType() aclnn.GroupListType {
	if g.Cumulative {
		return runningSums
	}
	return groupSizes
}

// each calls f with the rows of every non-empty group of a host list.
func (g *Groups) each(f func(group, first, rows int64)) {
	first := int64(0)
	for i, n := range g.Sizes() {
		if n > 0 {
			f(int64(i), first, n)
		}
		first += n
	}
}
