package dataset

import "fmt"

// Kind says how samples fill rows.
type Kind int

// Kinds of rows.
const (
	// Packed rows are full: samples stand side by side. A text that does not fit goes on in the next
	// row. Other samples stay whole: what they leave of a row is a sequence of its own, without labels.
	Packed Kind = iota
	// Padded rows have one sample each, and are as long as the longest of the batch.
	Padded
)

// Row is the data of one row, of a batch's length.
type Row struct {
	Inputs, Labels []int32
	// Ends are the ends of the sequences in the row, which do not see each other; the last one is
	// that of the row, or in a padded row that of the sample.
	Ends []int
}

// Rows returns the next rows. Each has length tokens, padded ones at most that, rounded up to a
// multiple of step.
func (d *Dataset) Rows(n, length int, kind Kind, step int) ([]Row, error) {
	if n < 1 || length < 1 || step < 1 {
		return nil, fmt.Errorf("dataset: %d rows of %d tokens in multiples of %d; all must be positive", n, length, step)
	}
	if d.options.Pairs > 0 {
		return nil, errPairs
	}
	rows := make([]Row, n)
	longest := length
	if kind == Padded {
		longest = 0
	}
	for i := range rows {
		if err := d.fill(&rows[i], length, kind); err != nil {
			return nil, err
		}
		longest = max(longest, len(rows[i].Inputs))
	}
	if kind == Padded {
		longest = min((longest+step-1)/step*step, length)
	}
	for i := range rows {
		r := &rows[i]
		if kind == Packed && len(r.Inputs) < longest {
			r.Ends = append(r.Ends, longest)
		}
		for len(r.Inputs) < longest {
			r.Inputs, r.Labels = append(r.Inputs, 0), append(r.Labels, Ignored)
		}
	}
	return rows, nil
}

// fill takes samples for one row.
func (d *Dataset) fill(r *Row, length int, kind Kind) error {
	for len(r.Inputs) < length {
		if err := d.load(); err != nil {
			return err
		}
		room := length - len(r.Inputs)
		left := len(d.now.inputs) - d.at.Used
		switch {
		case left <= room:
		case kind == Packed && d.now.divisible:
			left = room
		case len(r.Inputs) > 0: // it begins the next row
			return nil
		default:
			left = room
			d.report.Truncated++
		}
		from := d.at.Used
		r.Inputs = append(r.Inputs, d.now.inputs[from:from+left]...)
		r.Labels = append(r.Labels, d.now.labels[from:from+left]...)
		r.Ends = append(r.Ends, len(r.Inputs))
		if d.at.Used += left; d.at.Used == len(d.now.inputs) || kind == Padded || !d.now.divisible {
			d.skip()
		}
		if kind == Padded {
			return nil
		}
	}
	return nil
}
