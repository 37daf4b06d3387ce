package profile_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/rttest"
)

// event is the part of a trace event that the tests look at.
type event struct {
	Phase    string `json:"ph"`
	Category string `json:"cat"`
	Name     string `json:"name"`
}

func TestMarks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.json")
	p := newProcess(t)
	var err error
	p.Runtime.Trace, err = rt.OpenTrace(path)
	require.NoError(t, err)
	th := p.Thread(0)
	s := p.Stream(th)
	f := func(name string, args ...uint64) uint64 { return p.Functions[name](th, args) }
	domain := f("mstxDomainCreateA", rttest.String("training"))
	f("mstxMarkA", rttest.String("start"), 0)
	outer := f("mstxRangeStartA", rttest.String("epoch"), 0)
	inner := f("mstxDomainRangeStartA", domain, rttest.String("step"), s)
	f("mstxDomainMarkA", domain, rttest.String("loss"), s)
	f("mstxDomainRangeEnd", domain, inner)
	f("mstxRangeEnd", outer)
	require.Empty(t, rttest.Text(th))
	p.Must(th, "aclrtSynchronizeStream", s)

	for _, x := range []struct {
		name string
		args []uint64
		text string
	}{
		{"mstxMarkA", []uint64{0, 0}, "message is null"},
		{"mstxMarkA", []uint64{rttest.String(""), 0}, "message is null"},
		{"mstxMarkA", []uint64{rttest.String("x"), 77}, "no live stream"},
		{"mstxRangeStartA", []uint64{0, 0}, "message is null"},
		{"mstxRangeEnd", []uint64{outer}, "not under way"},
		{"mstxDomainCreateA", []uint64{0}, "name is null"},
		{"mstxDomainMarkA", []uint64{0, rttest.String("x"), 0}, "domain is null"},
		{"mstxDomainMarkA", []uint64{s, rttest.String("x"), 0}, "no live domain"},
		{"mstxDomainRangeStartA", []uint64{s, rttest.String("x"), 0}, "no live domain"},
		{"mstxDomainRangeEnd", []uint64{domain, inner}, "not under way"},
		{"mstxDomainDestroy", []uint64{s}, "no live domain"},
	} {
		require.Zero(t, f(x.name, x.args...), x.name)
		message := rttest.Text(th)
		require.Contains(t, message, x.name)
		require.Contains(t, message, x.text)
	}
	other := f("mstxRangeStartA", rttest.String("other"), 0)
	f("mstxDomainRangeEnd", domain, other)
	require.Contains(t, rttest.Text(th), "not under way there", "a range of no domain")
	f("mstxRangeEnd", other)
	f("mstxDomainDestroy", domain)
	require.Empty(t, rttest.Text(th))
	require.Zero(t, p.Runtime.Handles.Count(rt.DomainKind))
	p.Must(th, "aclrtDestroyStream", s)

	p.Runtime.Trace.Flush()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	p.Runtime.Trace = nil
	var events []event
	require.NoError(t, json.Unmarshal(b, &events))
	rows := map[string][]string{}
	for _, e := range events {
		if e.Phase == "X" {
			rows[e.Category] = append(rows[e.Category], e.Name)
		}
	}
	require.Equal(t, []string{"start", "training: loss", "training: step", "epoch", "other"}, rows["host"])
	require.Equal(t, []string{"begin training: step", "training: loss", "end training: step"}, rows["stream"])
}
