package dataset

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"github.com/goascend/cann/examples/budget"
	"github.com/goascend/cann/examples/chat"
)

// Options say how samples become tokens, and in which order they come.
type Options struct {
	Tokenizer Encoder
	Template  *chat.Template // for messages, and for prompts with responses; nil for none
	End       int32          // token that ends a text; negative for none
	Seed      uint64         // of the order

	// Pairs is for samples with a chosen and a rejected answer, which Dataset.Pairs takes: the largest number of tokens of a row. Longer samples are
	// bad. 0 stands for other samples. Scored rows of pairs have all their tokens, with a label on the last one, as a reward model reads them.
	Pairs  int
	Scored bool

	// Strict makes samples bad, and tables an error, that have a key or a column of which the report would say that it is not read.
	Strict bool

	// Parquet opens Parquet files: parquet.Open of the package below this one. Without it they are refused.
	Parquet func(*os.File) (Table, error)
}

// Position is a place in the stream of samples. Its JSON belongs into checkpoints.
type Position struct {
	Epoch  int `json:"epoch"`
	Sample int `json:"sample"` // of the epoch
	Used   int `json:"used"`   // tokens of that sample that earlier rows have
}

// Report counts what was met on the way.
type Report struct {
	Samples   int   // read
	Bad       int   // lines or rows that cannot be used
	FirstBad  error // names file and line, or row, of the first
	Empty     int   // samples without a token to learn
	Truncated int   // samples longer than a row, which were cut
	// Unread are the keys of samples, and the columns of tables, that are not read, sorted; a hundred at most, and UnreadMore says that there are others.
	Unread     []string
	UnreadMore bool
	// LeftOut counts the files of a folder that are not read, by the suffix of their names.
	LeftOut map[string]int
}

// unread adds names of keys that are not read.
func (r *Report) unread(names []string) {
	for _, name := range names {
		at, known := slices.BinarySearch(r.Unread, name)
		switch {
		case known:
		case len(r.Unread) >= mostUnread:
			r.UnreadMore = true
		default:
			r.Unread = slices.Insert(slices.Clip(r.Unread), at, name)
		}
	}
}

// String is a line for people.
func (r Report) String() string {
	s := fmt.Sprintf("%d samples read", r.Samples)
	if r.Bad > 0 {
		s += fmt.Sprintf(", %d bad lines (the first: %v)", r.Bad, r.FirstBad)
	}
	if r.Empty > 0 {
		s += fmt.Sprintf(", %d with nothing to learn", r.Empty)
	}
	if r.Truncated > 0 {
		s += fmt.Sprintf(", %d truncated", r.Truncated)
	}
	if len(r.Unread) > 0 {
		s += ", not read of samples: " + strings.Join(r.Unread, ", ")
	}
	if r.UnreadMore {
		s += fmt.Sprintf(" and more than these %d", mostUnread)
	}
	if left := r.Left(); left != "" {
		s += ", " + left
	}
	return s
}

// Left names the files of a folder that are not read; it is empty if all are.
func (r Report) Left() string {
	var all []string
	for _, ext := range slices.Sorted(maps.Keys(r.LeftOut)) {
		all = append(all, fmt.Sprintf("%d files %q not read", r.LeftOut[ext], "*"+ext))
	}
	return strings.Join(all, ", ")
}

// Dataset is an endless stream of samples, epoch after epoch. It is not safe for concurrent use.
type Dataset struct {
	options Options
	index   *index
	at      Position
	report  Report

	order []int // of the blocks in this epoch
	epoch int   // that order is of
	group []raw // samples that are shuffled together
	from  int   // number of the first of them in the epoch
	next  int   // group that is read next
	begin int   // of its blocks in the order

	waste unusable // since the last sample that could be used

	now    sample // current one, from Used on
	loaded bool
	usable bool // whether this epoch has had a sample
	once   bool // the end of the epoch is io.EOF
}

// Open looks through the files. It reads those of lines and texts once, for the places of the lines.
func Open(path string, o Options) (*Dataset, error) {
	if o.Tokenizer == nil {
		return nil, errors.New("dataset: a tokenizer is needed")
	}
	x, err := newIndex(path, o.Parquet)
	if err != nil {
		return nil, err
	}
	d := &Dataset{options: o, index: x, report: Report{LeftOut: x.left}}
	for file, t := range x.tables {
		if t == nil {
			continue
		}
		unread := t.Unread()
		if o.Strict && len(unread) > 0 {
			return nil, errors.Join(fmt.Errorf("dataset: %s: its columns %s are not read", x.files[file], strings.Join(unread, ", ")), x.close())
		}
		d.report.unread(unread)
	}
	d.shuffle()
	return d, nil
}

// Close closes the files.
func (d *Dataset) Close() error {
	if d == nil {
		return nil
	}
	return d.index.close()
}

// Position locates the next rows.
func (d *Dataset) Position() Position { return d.at }

// Report returns the counts since Open.
func (d *Dataset) Report() Report { return d.report }

// MarshalText and its inverse make a position a word for a checkpoint's description.
func (p Position) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "epoch %d sample %d used %d", p.Epoch, p.Sample, p.Used), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Position) UnmarshalText(text []byte) error {
	if _, err := fmt.Sscanf(string(text), "epoch %d sample %d used %d", &p.Epoch, &p.Sample, &p.Used); err != nil || p.Epoch < 0 || p.Sample < 0 || p.Used < 0 {
		return fmt.Errorf("dataset: %q is not a position", text)
	}
	return nil
}

// Seek goes to a position of an earlier run with the same files, options and kind of rows.
func (d *Dataset) Seek(p Position) error {
	d.at, d.loaded, d.usable = Position{Epoch: p.Epoch, Sample: p.Sample}, false, true
	d.shuffle()
	if p.Used == 0 {
		return nil
	}
	if err := d.load(); err != nil {
		return err
	}
	if d.at.Epoch != p.Epoch || d.at.Sample != p.Sample || p.Used >= len(d.now.inputs) {
		return fmt.Errorf("dataset: sample %d of epoch %d has no token %d: the data or the tokenizer is another", p.Sample, p.Epoch, p.Used)
	}
	d.at.Used = p.Used
	return nil
}

// shuffle orders the blocks of an epoch.
func (d *Dataset) shuffle() {
	d.epoch, d.group, d.from, d.next, d.begin = d.at.Epoch, nil, 0, 0, 0
	x := d.index
	d.order = make([]int, 0, len(x.blocks))
	for _, start := range rand.New(rand.NewPCG(d.options.Seed, uint64(d.epoch))).Perm(len(x.starts)) {
		i := x.starts[start]
		for d.order = append(d.order, i); i+1 < len(x.blocks) && x.blocks[i+1].follows; {
			i++
			d.order = append(d.order, i)
		}
	}
}

// raw returns the sample at the position, or false at the end of the epoch.
func (d *Dataset) raw() (*raw, bool, error) {
	if d.epoch != d.at.Epoch {
		d.shuffle()
	}
	for d.at.Sample >= d.from+len(d.group) {
		d.from += len(d.group)
		d.group = d.group[:0]
		if d.begin >= len(d.order) {
			return nil, false, nil
		}
		blocks := d.index.together(d.order[d.begin:])
		d.begin += len(blocks)
		if n := d.index.samples(blocks); d.at.Sample >= d.from+n { // a position far ahead
			d.from, d.next = d.from+n, d.next+1
			continue
		}
		var err error
		most, held := mostShuffled+shuffledGrowth*d.index.size, int64(0)
		for _, b := range blocks {
			known := len(d.group)
			if d.group, err = d.index.read(d.index.blocks[b], d.group); err != nil {
				return nil, false, err
			}
			for _, r := range d.group[known:] {
				held += int64(len(r.text))
			}
			if held > most {
				at := d.index.blocks[b]
				return nil, false, fmt.Errorf("dataset: %s: %w: %d blocks of %d rows, which are shuffled together, have more than %d bytes: %d for each byte of the files, and %d",
					d.index.files[at.file], budget.ErrLimit, len(blocks), blockLines, most, shuffledGrowth, mostShuffled)
			}
		}
		rng := rand.New(rand.NewPCG(d.options.Seed^0x9e3779b97f4a7c15, uint64(d.epoch)<<32|uint64(d.next)))
		rng.Shuffle(len(d.group), func(i, j int) { d.group[i], d.group[j] = d.group[j], d.group[i] })
		d.next++
	}
	return &d.group[d.at.Sample-d.from], true, nil
}

// load makes the sample at the position the current one, or else the next that can be used.
func (d *Dataset) load() error {
	for !d.loaded {
		r, ok, err := d.raw()
		if err != nil {
			return err
		}
		if !ok {
			if !d.usable {
				return fmt.Errorf("dataset: no sample of %v can be used: %v", d.index.files, d.report)
			}
			d.at, d.usable = Position{Epoch: d.at.Epoch + 1}, false
			if d.once {
				return io.EOF
			}
			continue
		}
		if err := d.waste.add(*r); err != nil {
			return err
		}
		if r.text == "" && r.ids == nil && r.err == nil { // an empty line
			d.skip()
			continue
		}
		d.report.Samples++
		s, err := d.options.encode(*r)
		d.report.unread(s.unread)
		switch {
		case errors.Is(err, budget.ErrTime): // on another machine, or another rank, it might have been in time
			return fmt.Errorf("dataset: %v: whether it can be used depends on the speed of the machine, so ranks could learn from other samples; remove it: %w", r.where, err)
		case err != nil:
			d.report.Bad++
			if d.report.FirstBad == nil {
				d.report.FirstBad = fmt.Errorf("%v: %w", r.where, d.options.cause(*r, err))
			}
			d.skip()
		case !s.learns():
			d.report.Empty++
			d.skip()
		default:
			d.now, d.loaded, d.usable, d.waste = s, true, true, unusable{}
		}
	}
	return nil
}

// unusable counts lines, elements or rows that follow each other and have nothing to learn, with their bytes.
type unusable struct {
	lines, bytes int
}

// At most mostUnusable bytes without a sample may follow each other; a line counts as leastUnusable at least.
const (
	mostUnusable  = 64 << 20
	leastUnusable = 256
)

// add counts one, before it is known to be usable.
func (u *unusable) add(r raw) error {
	if u.bytes > mostUnusable {
		return fmt.Errorf("dataset: %v: %w: the %d lines before it have no sample that can be used", r.where, budget.ErrLimit, u.lines)
	}
	u.lines, u.bytes = u.lines+1, u.bytes+max(len(r.text), leastUnusable)
	return nil
}

// Tokens returns all tokens of the next sample, whatever part of them is learnt, and goes on to the one
// after it. At the end of an epoch it returns io.EOF, once.
func (d *Dataset) Tokens() ([]int32, error) {
	if d.options.Pairs > 0 {
		return nil, errPairs
	}
	d.once = true
	err := d.load()
	if d.once = false; err != nil {
		return nil, err
	}
	ids := d.now.ids
	d.skip()
	return ids, nil
}

func (s sample) learns() bool {
	if p := s.pair; p != nil {
		return p.chosen.learns() && p.rejected.learns()
	}
	for _, l := range s.labels {
		if l != Ignored {
			return true
		}
	}
	return false
}

func (d *Dataset) skip() {
	d.at.Sample++
	d.at.Used, d.loaded = 0, false
}
