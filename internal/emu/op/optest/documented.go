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

// Marks of the lines that say which documented types are refused.
const refusedHere, refusedInSource = ": refused ", ": refused by CANN's source "

// refusals describes the documented types with which phase one refuses every variation of the calls that
// have the tensor, a line for each tensor: "Glu self: refused float64". Lines of their own have those
// that the operator's source refuses. Types in known lines are taken to be refused still.
func (s *Survey) refusals(calls []AcceptedCall, page documented, known map[string][]string) (lines []string, err error) {
	source, _, err := acceptance.Types(s.op.Name, home(s.op.Name))
	if err != nil {
		return nil, err
	}
	for i, p := range s.op.Params {
		var here, there []string
		name := s.op.Name + " " + p.Name
		for _, d := range page[p.Name] {
			limit, limited := source[p.Name]
			switch {
			case s.verified[i][d]:
			case limited && !slices.Contains(limit, d):
				there = append(there, d.String())
			case slices.Contains(known[name], d.String()) || s.refuses(calls, page, i, d):
				here = append(here, d.String())
			}
		}
		if here != nil {
			lines = append(lines, name+refusedHere+strings.Join(here, " "))
		}
		if there != nil {
			lines = append(lines, name+refusedInSource+strings.Join(there, " "))
		}
	}
	return lines, nil
}

// knownRefusals reads the lines of refusals in a list of element types.
func knownRefusals(list string) map[string][]string {
	known := map[string][]string{}
	for line := range strings.Lines(list) {
		if name, types, ok := strings.Cut(strings.TrimPrefix(line, "# "), refusedHere); ok && !strings.Contains(line, refusedInSource) {
			known[name] = strings.Fields(types)
		}
	}
	return known
}

// refuses reports whether phase one refuses all variations of the calls with a tensor of type d: that
// tensor alone, all of its type, or other documented types in other tensors as well. Without a call that
// has the tensor it is not known.
func (s *Survey) refuses(calls []AcceptedCall, page documented, param int, d dtype.Type) bool {
	random := rand.New(rand.NewPCG(uint64(param), uint64(d)))
	tried := false
	for _, call := range calls {
		of, err := call.of(s.op)
		if err != nil || len(of.tensors(param)) == 0 || !of.accepted() {
			continue
		}
		tried = true
		for _, v := range variations(of) {
			if v.to == d && slices.Contains(v.params, param) && v.of(of, d).accepted() {
				return false
			}
		}
		for _, mixed := range []bool{false, true} {
			if of.spread(page, param, d, mixed).accepted() {
				return false
			}
		}
		for range 40 {
			if of.scattered(random, page, param, d).accepted() {
				return false
			}
		}
	}
	return tried
}

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

// scattered returns the call with type d in a tensor and documented types by chance in others. Attributes
// that name a type name that of the last tensor.
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
	if random.IntN(2) > 0 {
		return r
	}
	return r.with(func(args []any) []any {
		args = slices.Clone(args)
		for i, p := range r.op.Params {
			if p.Class == op.IntClass && namesType(p.Name) {
				args[i] = int64(last)
			}
		}
		return args
	})
}

// accepted reports whether phase one accepts the call on each rank.
func (r recorded) accepted() bool {
	var memory kerneltest.Arena
	defer memory.Free()
	_, _, err := r.prepare(&memory, &replay{op: r.op}, start{})
	return err == nil
}
