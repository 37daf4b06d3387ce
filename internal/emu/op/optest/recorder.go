package optest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
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
}

// note describes a call before it runs, since running it may change its tensors. It has a part on
// each rank of groups, or one part without groups. The returned function records the call.
func (r *recorder) note(groups []map[string]op.Communicator, parts ...*op.Call) (accepted func()) {
	if !*record {
		return func() {}
	}
	a, err := accept(parts, groups)
	if err != nil || a.elements() > mostElements { // JSON cannot represent an infinite attribute
		return func() {}
	}
	var types strings.Builder
	for _, t := range parts[0].AllTensors() {
		fmt.Fprint(&types, t.Name, t.DType, t.Format)
	}
	return func() { r.add(a, types.String()) }
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

// write adds the recorded calls to a file. It keeps the calls that bring combinations of types
// which earlier calls do not have, and drops a call that is refused when it is repeated without its
// data.
func (r *recorder) write(file string) error {
	before, err := ReadCalls(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, of := range before {
		for _, a := range of {
			r.add(a, string(a.text()))
		}
	}
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(r.shortest)) {
		s := NewSurvey(op.Find(name))
		for _, a := range slices.SortedFunc(maps.Values(r.shortest[name]), AcceptedCall.compare) {
			if s.knows(a) {
				continue
			}
			if fresh, err := s.Add(a); err == nil && fresh {
				b.Write(append(a.text(), '\n'))
			}
		}
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
}

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
