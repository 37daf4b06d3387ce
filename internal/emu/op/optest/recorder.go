package optest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/goascend/cann/internal/emu/op"
)

// calls records the successful calls of the tests. Of each combination of element types it keeps
// the shortest call.
var calls recorder

// mostElements is how many elements the tensors of a recorded call may have, since the survey runs it
// many times.
const mostElements = 1 << 15

type recorder struct {
	mu       sync.Mutex
	shortest map[string]map[string]AcceptedCall // by operator and combination of element types
	dropped  map[string]error                   // why the last call that was not recorded was not, by operator
}

// note describes a call before phase one, which may change its tensors. It has a part on
// each rank of groups, or one part without groups. The returned function records the call.
func (r *recorder) note(groups []map[string]op.Communicator, parts ...*op.Call) (accepted func()) {
	if !*record {
		return func() {}
	}
	a, err := accept(parts, groups) // JSON cannot represent an infinite attribute
	if n := a.elements(); err == nil && n > mostElements {
		err = fmt.Errorf("its tensors have %d elements", n)
	}
	if err != nil {
		return func() { r.drop(a.Operator, err) }
	}
	var types strings.Builder
	for _, t := range parts[0].AllTensors() {
		fmt.Fprint(&types, t.Name, t.DType, t.Format)
	}
	return func() {
		if !slices.ContainsFunc(parts, (*op.Call).Follows) { // addresses within tensors mean nothing in another process
			r.add(a, types.String())
		}
	}
}

func (r *recorder) add(a AcceptedCall, types string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shortest == nil {
		r.shortest = make(map[string]map[string]AcceptedCall)
	}
	of := r.shortest[a.Operator]
	if of == nil {
		of = make(map[string]AcceptedCall)
		r.shortest[a.Operator] = of
	}
	if old, ok := of[types]; !ok || a.compare(old) < 0 {
		of[types] = a
	}
}

func (r *recorder) drop(operator string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dropped == nil {
		r.dropped = make(map[string]error)
	}
	r.dropped[operator] = err
}

// compare orders calls: those that show more of the operator first, then shorter ones.
func (a AcceptedCall) compare(b AcceptedCall) int {
	x, y := a.text(), b.text()
	return cmp.Or(cmp.Compare(a.weak(), b.weak()), cmp.Compare(len(x), len(y)), bytes.Compare(x, y))
}

func (a AcceptedCall) text() []byte {
	text, err := json.Marshal(a)
	if err != nil {
		panic(err) // cannot happen: the arguments are JSON already
	}
	return text
}

// write adds the recorded calls to a file. It keeps the calls of the file, because their variations may show types that
// a shorter new call does not show, and adds new calls that bring combinations of types which those do not have. It
// drops a call that is refused when it is repeated without its data. It reports the operators without any call, with
// the reason.
func (r *recorder) write(file string, report io.Writer) error {
	before, err := ReadCalls(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	names := make(map[string]bool)
	for name := range before {
		names[name] = true
	}
	for name := range r.shortest {
		names[name] = true
	}
	var kept []AcceptedCall
	written := make(map[string]bool)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		s := NewSurvey(op.Find(name))
		for _, a := range slices.Concat(before[name], slices.SortedFunc(maps.Values(r.shortest[name]), AcceptedCall.compare)) {
			if s.knows(a) {
				continue
			}
			fresh, err := s.Add(a)
			if err != nil {
				r.drop(name, err)
			}
			if err == nil && fresh {
				kept = append(kept, a)
				written[name] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(Tested)) {
		if !written[name] {
			fmt.Fprintf(report, "no call of aclnn%s is recorded: %v\n", name, cmp.Or(r.dropped[name], errNoCall))
		}
	}
	// Versions of an operator are called with the same data. As neighbours they are half as large in the module's zip.
	slices.SortFunc(kept, AcceptedCall.compare)
	var b bytes.Buffer
	for _, a := range kept {
		b.Write(append(a.text(), '\n'))
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
}

var errNoCall = errors.New("the tests that ran have none with tensors that matter")

// ReadCalls reads the recorded calls of a file by operator.
func ReadCalls(file string) (map[string][]AcceptedCall, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	by := make(map[string][]AcceptedCall)
	for line := range bytes.Lines(text) {
		var a AcceptedCall
		if err := json.Unmarshal(line, &a); err != nil {
			return nil, err
		}
		by[a.Operator] = append(by[a.Operator], a)
	}
	return by, nil
}
