package ccl_test

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"testing"
)

var full = flag.Bool("full", false, "TestLargeTable: 16 MiB of every type and operation with each number of ranks and connection, for minutes")

// TestLargeTable is TestTable for buffers of 3 MiB, more than a ring holds and than a message needs to
// get huge pages. Each type and operator runs all collectives with one number of ranks and one kind of
// connection, and each of these occurs several times. TestBeyondSockets has larger messages.
func TestLargeTable(t *testing.T) {
	if testing.Short() {
		t.Skip("3 MiB per rank")
	}
	size := 3 << 20
	if *full {
		size = len(zeros)
	}
	var jobs []func(all []*rank)
	for _, x := range numbers {
		world := func(all []*rank, ops ...int) (blocks, whole *world) {
			blocks = newWorld(x, len(all), size/x.size/len(all), ops...)
			w := *blocks
			w.count *= len(all)
			return blocks, &w
		}
		label := fmt.Sprintf("%s %d MiB", x.name, size>>20)
		for op := range 4 {
			if x.reduces(op) {
				jobs = append(jobs, func(all []*rank) {
					blocks, whole := world(all, op)
					each(all, func(r *rank) {
						for _, c := range append(r.reductions(whole, op), r.blockReductions(blocks, op)...) {
							r.verify(c, fmt.Sprintf("%s op %d", label, op))
						}
					})
				})
			}
		}
		jobs = append(jobs, func(all []*rank) {
			blocks, whole := world(all)
			each(all, func(r *rank) {
				for _, c := range slices.Concat(r.moves(whole), r.blockMoves(blocks), r.unevenMoves(blocks)) {
					r.verify(c, label)
				}
				r.verifyPair(blocks)
			})
		})
	}
	sizes, first := []int{1, 2, 3, 4, 8}, 0
	step := len(sizes) * len(worlds)
	if *full {
		step = 1
	}
	for _, connection := range slices.Sorted(maps.Keys(worlds)) {
		for _, n := range sizes {
			t.Run(fmt.Sprintf("%s/%d", connection, n), func(t *testing.T) {
				all := worlds[connection](t, n, patient)
				for i := first % step; i < len(jobs); i += step {
					jobs[i](all)
				}
			})
			first++
		}
	}
}

// Every rank sends 16 MiB at once, more than the buffers of a TCP connection and its reader hold.
func TestBeyondSockets(t *testing.T) {
	if testing.Short() {
		t.Skip("16 MiB per rank")
	}
	all := worlds["hosts"](t, 3, patient)
	at := slices.IndexFunc(numbers, func(x number) bool { return x.name == "float32" })
	w := newWorld(numbers[at], len(all), len(zeros)/numbers[at].size, 0)
	each(all, func(r *rank) {
		for _, c := range append(r.moves(w), r.reductions(w, 0)...) {
			r.verify(c, w.name)
		}
	})
}
