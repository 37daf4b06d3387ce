package sanitize

import "slices"

// Touch describes how a task uses a piece of device memory.
type Touch uint8

const (
	Reads      Touch = iota // every byte
	ReadsSome               // the bytes read depend on data, such as indices or lengths
	Keeps                   // reads only bytes that it does not overwrite, or copies them unchanged
	WritesSome              // the bytes written depend on data
	Writes                  // every byte
)

func (t Touch) String() string {
	if t.write() {
		return "writes"
	}
	return "reads"
}

// write reports whether the touch changes memory. some reports whether the touched bytes depend on
// data, so that they are unknown when the task is checked.
func (t Touch) write() bool { return t == Writes || t == WritesSome }
func (t Touch) some() bool  { return t == ReadsSome || t == WritesSome }

// Access is a strided view of device memory that a task touches. A Step lists its accesses in the
// order in which it makes them.
type Access struct {
	Name    string // the argument, for messages
	Touch   Touch
	Addr    uint64 // of the first element
	Item    uint64 // bytes of an element
	Shape   []int64
	Strides []int64 // in elements

	From, FromPitch uint64 // of a plain copy of rows: address of the source and its row pitch
}

// Bytes returns an access to n contiguous bytes.
func Bytes(name string, touch Touch, addr, n uint64) Access {
	return Access{Name: name, Touch: touch, Addr: addr, Item: 1, Shape: []int64{int64(n)}, Strides: []int64{1}}
}

// interval is a range of addresses.
type interval struct{ lo, hi uint64 }

func (i interval) overlaps(o interval) bool { return i.lo < o.hi && o.lo < i.hi }

// axis is one dimension of an access; its stride is in bytes.
type axis struct {
	n      int64
	stride int64
}

// runs returns the bytes of the access as intervals in ascending order. Contiguous dimensions are
// merged, so a view without overlaps gives as few intervals as possible.
func (a *Access) runs() []interval {
	var axes []axis
	addr := a.Addr
	for i, n := range a.Shape {
		stride := a.Strides[i] * int64(a.Item)
		switch {
		case n == 0:
			return nil
		case n == 1 || stride == 0:
			continue
		case stride < 0:
			addr -= uint64(-stride * (n - 1))
			stride = -stride
		}
		axes = append(axes, axis{n, stride})
	}
	slices.SortFunc(axes, func(x, y axis) int { return int(x.stride - y.stride) })
	width := int64(a.Item)
	for len(axes) > 0 && axes[0].stride == width {
		width *= axes[0].n
		axes = axes[1:]
	}
	runs := []interval{{addr, addr + uint64(width)}}
	for _, x := range axes {
		one := runs
		runs = make([]interval, 0, int64(len(one))*x.n)
		for i := range x.n {
			for _, r := range one {
				runs = append(runs, interval{r.lo + uint64(i*x.stride), r.hi + uint64(i*x.stride)})
			}
		}
	}
	if !slices.IsSortedFunc(runs, byStart) {
		slices.SortFunc(runs, byStart)
	}
	return runs
}

func byStart(x, y interval) int {
	switch {
	case x.lo < y.lo:
		return -1
	case x.lo > y.lo:
		return 1
	}
	return 0
}

// overlap returns the first interval that two sorted lists have in common.
func overlap(a, b []interval) (interval, bool) {
	for len(a) > 0 && len(b) > 0 {
		if a[0].overlaps(b[0]) {
			return interval{max(a[0].lo, b[0].lo), min(a[0].hi, b[0].hi)}, true
		}
		if a[0].hi <= b[0].hi {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return interval{}, false
}
