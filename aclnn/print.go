package aclnn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/internal/element"
)

// What Sprint shows: tensors of more elements than printAll are cut to printEdge indices at
// both ends of each dimension; lines have at most printWidth characters.
const (
	printAll   = 1000
	printEdge  = 3
	printWidth = 80
)

// Sprint is a tensor for people: its String and, in the next lines, its values. Of more than
// 1000 elements it shows the first and the last three of each dimension, and copies no others
// from the device. It waits for the work queued on the stream. Types that share bytes, and
// hifloat8, are not shown: acl.ErrNotSupported.
//
//	float32[2,3]ND
//	[[ 1.0000,  2.5000,  3.0000],
//	 [-4.0000,  5.0000,  6.0000]]
func Sprint(ctx context.Context, st *acl.Stream, t *Tensor) (text string, err error) {
	if err := waits(ctx, st, t); err != nil {
		return "", err
	}
	if !element.Printable(t.DType()) {
		return "", refuse(acl.ErrNotSupported, "the values of %v cannot be shown", t)
	}
	shown := t
	var cut [MaxRank]bool
	if t.Len() > printAll {
		if shown, cut, err = edges(st, t); err != nil {
			return "", err
		}
		defer func() { err = errors.Join(err, shown.Close()) }()
	}
	raw := make([]byte, shown.Bytes())
	if err := shown.read(ctx, st, raw, t.DType()); err != nil {
		return "", err
	}
	if len(raw) == 0 {
		return t.String() + "\n[]", nil
	}
	p := printer{texts: element.Texts(raw, t.DType()), shape: shown.Shape(), cut: cut[:t.Rank()]}
	p.b.WriteString(t.String() + "\n")
	p.dimension(0)
	return p.b.String(), nil
}

// Print writes what Sprint returns, and a line end, to w.
func Print(ctx context.Context, st *acl.Stream, w io.Writer, t *Tensor) error {
	if w == nil {
		return refuse(acl.ErrInvalidArgument, "the writer is nil")
	}
	text, err := Sprint(ctx, st, t)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, text)
	return err
}

// edges makes a tensor of the ends of each dimension that has more than is shown, and reports
// which those are.
func edges(st *acl.Stream, t *Tensor) (small *Tensor, cut [MaxRank]bool, err error) {
	flat := t
	if t.Format() == FractalNZ { // tiles cannot be cut
		if flat, err = Contiguous(st, t); err != nil {
			return nil, cut, err
		}
		defer func() { err = errors.Join(err, flat.Close()) }()
	}
	shape := t.Shape()
	for i, d := range shape {
		if cut[i] = d > 2*printEdge; cut[i] {
			shape[i] = 2 * printEdge
		}
	}
	if small, err = New(st, t.DType(), shape...); err != nil {
		return nil, cut, err
	}
	if err := corners(st, small.bits(), flat.bits(), cut, 0); err != nil {
		return nil, cut, errors.Join(err, small.Close())
	}
	return small, cut, nil
}

// corners copies the ends of dimension axis and of those behind it.
func corners(st *acl.Stream, dst, src *Tensor, cut [MaxRank]bool, axis int) error {
	if axis == src.Rank() {
		return Copy(st, dst, src)
	}
	if !cut[axis] {
		return corners(st, dst, src, cut, axis+1)
	}
	err := corners(st, dst.Narrow(axis, 0, printEdge), src.Narrow(axis, 0, printEdge), cut, axis+1)
	if err != nil {
		return err
	}
	last := src.Dim(axis) - printEdge
	return corners(st, dst.Narrow(axis, printEdge, printEdge), src.Narrow(axis, last, printEdge), cut, axis+1)
}

// printer writes elements in nested brackets.
type printer struct {
	b     strings.Builder
	texts []string // of one width, those that are still to be written
	shape []int64
	cut   []bool // dimensions of which the middle is left out
}

// dimension writes the elements of one index of all dimensions before axis.
func (p *printer) dimension(axis int) {
	switch len(p.shape) - axis {
	case 0:
		p.b.WriteString(p.texts[0])
		return
	case 1:
		p.row(axis + 1)
		return
	}
	between := "," + strings.Repeat("\n", len(p.shape)-1-axis) + strings.Repeat(" ", axis+1)
	p.b.WriteByte('[')
	for i := range p.shape[axis] {
		if i > 0 {
			p.b.WriteString(between)
		}
		if i == printEdge && p.cut[axis] {
			p.b.WriteString("..." + between)
		}
		p.dimension(axis + 1)
	}
	p.b.WriteByte(']')
}

// row writes the elements of the last dimension, in lines that are indented alike.
func (p *printer) row(indent int) {
	p.b.WriteByte('[')
	column := indent
	for i, text := range p.texts[:p.shape[len(p.shape)-1]] {
		if i == printEdge && p.cut[len(p.cut)-1] {
			text = "..., " + text
		}
		switch {
		case i == 0:
		case column+len(", ")+len(text) > printWidth:
			p.b.WriteString(",\n" + strings.Repeat(" ", indent))
			column = indent
		default:
			p.b.WriteString(", ")
			column += len(", ")
		}
		p.b.WriteString(text)
		column += len(text)
	}
	p.b.WriteByte(']')
	p.texts = p.texts[p.shape[len(p.shape)-1]:]
}
