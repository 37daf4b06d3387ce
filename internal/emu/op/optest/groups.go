package optest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
)

// NullsBeforeGroups checks every operator of the package that names a group, with a call of testdata/accepted_calls.jsonl or
// with given arguments: a null pointer is refused before a group without a communicator is, and that group before
// everything else.
func NullsBeforeGroups(t *testing.T, given map[string]Args) {
	calls, err := ReadCalls("testdata/accepted_calls.jsonl")
	require.NoError(t, err)
	nobody := func(group string) (op.Communicator, error) {
		return op.Communicator{}, fmt.Errorf("no communicator %q", group)
	}
	for name := range Tested {
		o := op.Find(name)
		var groups []int
		for i, p := range o.Params {
			if p.Class == op.StringClass && strings.Contains(strings.ToLower(p.Name), "group") {
				groups = append(groups, i)
			}
		}
		if groups == nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			call := recorded{op: o}
			if a := given[name]; a != nil {
				call.ranks = [][]any{inOrder(t, o, a)}
			} else {
				require.NotEmpty(t, calls[name], "no call is recorded")
				call, err = calls[name][0].of(o)
				require.NoError(t, err)
			}
			answer := func(args []any, join func(string) (op.Communicator, error)) int32 {
				var memory kerneltest.Arena
				defer memory.Free()
				c := op.NewCall(o, (&replay{op: o}).build(&memory, args, start{}), op.Env{Join: join, Links: new(op.Links), Chip: home(name)})
				_, err := op.NewExecutor(Tested[name], c)
				var refused *op.Error
				if errors.As(err, &refused) {
					return refused.Code
				}
				require.NoError(t, err)
				return 0
			}
			args := call.ranks[0]
			assert.Equal(t, op.Unsupported, answer(args, nobody), "without a communicator")
			checked := 0
			for i, p := range o.Params {
				if args[i] == nil || p.Class == op.IntClass || p.Class == op.BoolClass || p.Class == op.DoubleClass || p.Class == op.FloatClass || p.Class == op.PointerClass {
					continue
				}
				without := append([]any{}, args...)
				without[i] = nil
				if answer(without, call.join(0)) == op.NullPointer {
					checked++
					assert.Equal(t, op.NullPointer, answer(without, nobody), "%s is null, and there is no communicator", p.Name)
				}
			}
			assert.NotZero(t, checked, "no argument must be given")
		})
	}
}
