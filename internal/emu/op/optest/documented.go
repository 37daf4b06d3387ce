package optest

import (
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
)

// documentedFile lists the element types that CANN's public pages give, seen from the folder of a family.
const documentedFile = "../../op/optest/testdata/documented.txt"

// documented holds the element types that a page gives for the tensors of an operator, by parameter.
type documented map[string][]dtype.Type

// documentedTypes reads lines such as "Abs self abc float32 float16", of the operators on the chips on
// which they are tested. Types that the emulator does not have are left out.
func documentedTypes() (map[string]documented, error) {
	text, err := os.ReadFile(documentedFile)
	if err != nil {
		return nil, err
	}
	all := map[string]documented{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 4 || f[0] == "#" || strings.IndexByte(f[2], byte(home(f[0]))) < 0 {
			continue
		}
		if all[f[0]] == nil {
			all[f[0]] = documented{}
		}
		for _, d := range surveyed {
			if slices.Contains(f[3:], d.String()) {
				all[f[0]][f[1]] = append(all[f[0]][f[1]], d)
			}
		}
	}
	return all, nil
}

// Reasons for which phase one refuses a documented type, as the list of types names them.
const (
	byEmulator = ": refused "                  // a complaint, unless an exception gives the reason
	bySource   = ": refused by CANN's source " // in every call that was tried
	byChip     = ": not computed by the chip " // a float of eight or four bits
)

// refusals describes the documented types with which phase one refuses every variation of the calls that
// have the tensor, a line for each tensor and reason: "Abs self: refused by CANN's source complex32". Types in
// known lines are taken to be refused still.
func (s *Survey) refusals(calls []AcceptedCall, page documented, known map[string]string) (lines []string) {
	for i, p := range s.op.Params {
		name := s.op.Name + " " + p.Name
		types := map[string][]string{} // by reason
		for _, d := range page[p.Name] {
			if s.computed[i][d] {
				continue
			}
			reason := known[name+" "+d.String()]
			if reason == "" {
				reason = s.refuses(calls, page, i, d)
			}
			types[reason] = append(types[reason], d.String())
		}
		for _, reason := range []string{byEmulator, bySource, byChip} {
			if types[reason] != nil {
				lines = append(lines, name+reason+strings.Join(types[reason], " "))
			}
		}
	}
	return lines
}

// knownRefusals reads the reasons of refusals in a list of element types, by operator, tensor and type.
func knownRefusals(list string) map[string]string {
	known := map[string]string{}
	for line := range strings.Lines(list) {
		for _, reason := range []string{bySource, byChip, byEmulator} {
			name, types, ok := strings.Cut(strings.TrimPrefix(line, "# "), reason)
			if !ok {
				continue
			}
			types, _, _ = strings.Cut(types, ":")
			for _, d := range strings.Fields(types) {
				known[name+" "+d] = reason
			}
			break
		}
	}
	return known
}

// refuses returns why phase one refuses all variations of the calls with a tensor of type d: that
// tensor alone, all of its type, or other documented types in other tensors as well. The reason is empty if
// one is accepted, and without a call that has the tensor.
func (s *Survey) refuses(calls []AcceptedCall, page documented, param int, d dtype.Type) (reason string) {
	random := rand.New(rand.NewPCG(uint64(param), uint64(d)))
	for _, call := range calls {
		of, err := call.of(s.op)
		if err != nil || len(of.tensors(param)) == 0 || !of.accepted(Tested[s.op.Name]) {
			continue
		}
		tries := []recorded{of.spread(page, param, d, false), of.spread(page, param, d, true)}
		for _, v := range variations(of) {
			if v.to == d && slices.Contains(v.params, param) {
				tries = append(tries, v.of(of, d))
			}
		}
		for _, try := range tries {
			tries = append(tries, try.packed(param, d))
		}
		for i, p := range s.op.Params { // modes
			for mode := range int64(3) {
				if p.Class == op.IntClass && !namesType(p.Name) {
					tries = append(tries, tries[1].with(func(args []any) []any {
						args = slices.Clone(args)
						args[i] = mode
						return args
					}))
				}
			}
		}
		for range 40 {
			tries = append(tries, of.scattered(random, page, param, d))
		}
		if reason == "" {
			reason = bySource
		}
		for _, try := range tries {
			if try.accepted(Tested[s.op.Name]) {
				return ""
			}
			if reason == bySource && try.accepted(anything) {
				reason = byEmulator
			}
		}
	}
	if reason == byEmulator && d.Bits() <= 8 && precision(d) > 0 && home(s.op.Name) != acceptance.Ascend950 {
		return byChip
	}
	return reason
}

// anything prepares every call that CANN's source accepts.
func anything(*op.Call) (op.Run, error) { return func(*op.Exec) error { return nil }, nil }

// spread returns the call with type d in all tensors that can have it by the page: those of the type of a
// parameter, or mixed ones, too.
func (r recorded) spread(page documented, param int, d dtype.Type, mixed bool) recorded {
	own := typesOf(r.tensors(param))
	for i, p := range r.op.Params {
		if !slices.Contains(page[p.Name], d) {
			continue
		}
		for _, from := range typesOf(r.tensors(i)) {
			if mixed || slices.Contains(own, from) {
				r = variation{from: from, to: d, params: []int{i}, attrs: true}.of(r, d)
			}
		}
	}
	return r
}

// packed returns the call with dimensions eight times as long as the last one of a tensor, if that holds
// numbers of four bits. An int32 has eight of them.
func (r recorded) packed(param int, d dtype.Type) recorded {
	shape := r.tensors(param)[0].Shape
	if d != dtype.Int4 && d != dtype.Int32 || len(shape) == 0 {
		return r
	}
	return r.with(func(args []any) []any {
		args = slices.Clone(args)
		for i := range args {
			longer := func(t *descriptor) *descriptor {
				last := len(t.Shape) - 1
				if last < 0 || t.Shape[last] != shape[len(shape)-1] || t.Strides != nil || t.Storage != nil || i == param && d == dtype.Int32 {
					return t
				}
				c := *t
				c.Shape = append(slices.Clone(t.Shape[:last]), 8*t.Shape[last])
				return &c
			}
			switch x := args[i].(type) {
			case *descriptor:
				args[i] = longer(x)
			case []*descriptor:
				args[i] = each(x, longer)
			}
		}
		return args
	})
}

// scattered returns the call with type d in a tensor and documented types at random in others. Attributes
// that name a type name that of the last tensor, and flags change at random.
func (r recorded) scattered(random *rand.Rand, page documented, param int, d dtype.Type) recorded {
	last := d
	for i, p := range r.op.Params {
		to := d
		if types := page[p.Name]; i != param && len(types) > 0 && random.IntN(4) > 0 {
			to = types[random.IntN(len(types))]
		} else if i != param {
			continue
		}
		for _, from := range typesOf(r.tensors(i)) {
			r, last = variation{from: from, to: to, params: []int{i}}.of(r, to), to
		}
	}
	names := random.IntN(2) > 0
	return r.with(func(args []any) []any {
		args = slices.Clone(args)
		for i, p := range r.op.Params {
			switch {
			case p.Class == op.IntClass && namesType(p.Name) && names:
				args[i] = int64(last)
			case p.Class == op.BoolClass && random.IntN(4) == 0:
				args[i] = !args[i].(bool)
			}
		}
		return args
	})
}

// accepted reports whether phase one accepts the call on each rank, with the operator's own checks in by.
func (r recorded) accepted(by op.Prepare) bool {
	var memory kerneltest.Arena
	defer memory.Free()
	_, _, err := r.prepare(&memory, &replay{op: r.op}, start{}, by)
	return err == nil
}
