package parallel

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every schedule ends when transfers are synchronous, computes each micro-batch forward before backward and after what
// it reads has arrived, and keeps few inputs alive.
func TestPipelineSchedules(t *testing.T) {
	for _, ranks := range []int{1, 2, 3, 4, 5, 8} {
		for _, micros := range []int{1, 2, 3, 4, 8, 15, 16} {
			for _, c := range []struct {
				chunks int
				zero   bool
			}{{1, false}, {1, true}, {2, false}, {3, false}} {
				if c.chunks > 1 && (ranks == 1 || micros%ranks != 0) {
					continue
				}
				t.Run(fmt.Sprintf("%d ranks/%d micro-batches/%d chunks/%v", ranks, micros, c.chunks, c.zero), func(t *testing.T) {
					s, err := NewPipelineSchedule(ranks, micros, c.chunks, c.zero)
					require.NoError(t, err)
					together(t, s)
					for rank := range ranks {
						follow(t, s, rank)
					}
					// What the papers give for these units.
					wait := 3 * (ranks - 1)
					if c.zero && micros >= ranks {
						wait = ranks - 1
					}
					if !c.zero || micros >= 2*ranks {
						require.Equal(t, 3*micros*c.chunks+wait, s.Length())
						require.InDelta(t, float64(wait)/float64(s.Length()), s.Bubble(), 1e-9)
					}
				})
			}
		}
	}
}

// together runs the programs of all ranks with transfers for which both sides wait. Nobody would ever go on if ranks waited for one another.
func together(t *testing.T, s *PipelineSchedule) {
	t.Helper()
	type wire struct {
		phase        PipelinePhase
		micro, stage int
	}
	var mu sync.Mutex
	wires := map[wire]chan struct{}{}
	of := func(w wire) chan struct{} {
		mu.Lock()
		defer mu.Unlock()
		if wires[w] == nil {
			wires[w] = make(chan struct{})
		}
		return wires[w]
	}
	var wg sync.WaitGroup
	for rank := range s.Steps {
		wg.Go(func() {
			for _, a := range s.program(rank) {
				var batch sync.WaitGroup
				for _, x := range a.batch {
					from := s.stage(rank, x.chunk)
					if x.receive && x.phase == PipelineForward {
						from--
					} else if x.receive {
						from++
					}
					w := of(wire{phase: x.phase, micro: x.micro, stage: from})
					batch.Go(func() {
						if x.receive {
							<-w
						} else {
							w <- struct{}{}
						}
					})
				}
				batch.Wait()
			}
		})
	}
	wg.Wait()
}

// follow checks the program of one rank without its neighbours.
func follow(t *testing.T, s *PipelineSchedule, rank int) {
	t.Helper()
	type event struct {
		what         string
		phase        PipelinePhase
		micro, chunk int
	}
	came := map[event]bool{} // transfers and computations so far
	inputs, most := 0, 0
	for _, a := range s.program(rank) {
		require.True(t, (a.step == nil) != (len(a.batch) == 0))
		for _, x := range a.batch {
			if x.receive {
				came[event{"received", x.phase, x.micro, x.chunk}] = true
				if x.phase == PipelineForward {
					inputs++
					most = max(most, inputs)
				}
				continue
			}
			require.True(t, came[event{"computed", x.phase, x.micro, x.chunk}], "sent before it was computed: %+v", x)
			came[event{"sent", x.phase, x.micro, x.chunk}] = true
		}
		if a.step == nil {
			continue
		}
		p, at := a.step, s.stage(rank, a.step.Chunk)
		done := event{"computed", p.Phase, p.Micro, p.Chunk}
		require.False(t, came[done], "twice: %+v", p)
		came[done] = true
		switch p.Phase {
		case PipelineForward:
			require.True(t, at == 0 || came[event{"received", PipelineForward, p.Micro, p.Chunk}])
		case PipelineBackward:
			require.True(t, came[event{"computed", PipelineForward, p.Micro, p.Chunk}])
			require.True(t, at == s.stages()-1 || came[event{"received", PipelineBackward, p.Micro, p.Chunk}])
		case PipelineWeights:
			require.True(t, came[event{"computed", PipelineBackward, p.Micro, p.Chunk}])
		}
		last := PipelineBackward
		if s.ZeroBubble {
			last = PipelineWeights
		}
		if p.Phase == last && at > 0 {
			inputs--
		}
	}
	for micro := range s.Micros {
		for chunk := range s.Chunks {
			for _, phase := range []PipelinePhase{PipelineForward, PipelineBackward, PipelineWeights} {
				require.Equal(t, phase != PipelineWeights || s.ZeroBubble, came[event{"computed", phase, micro, chunk}])
			}
			at := s.stage(rank, chunk)
			require.Equal(t, at < s.stages()-1, came[event{"sent", PipelineForward, micro, chunk}])
			require.Equal(t, at > 0, came[event{"sent", PipelineBackward, micro, chunk}])
		}
	}
	require.Zero(t, inputs)
	switch ranks := len(s.Steps); {
	case s.Chunks > 1:
	case s.ZeroBubble:
		require.LessOrEqual(t, most, ranks+1)
	default:
		require.LessOrEqual(t, most, ranks-rank+1)
	}
}

func TestPipelineScheduleRefusals(t *testing.T) {
	for text, c := range map[string][3]int{
		"0 ranks": {0, 1, 1}, "0 micro-batches": {2, 0, 1}, "0 chunks": {2, 2, 0}, "one rank and 2 chunks": {1, 2, 2}, "in groups of 4": {4, 6, 2},
	} {
		_, err := NewPipelineSchedule(c[0], c[1], c[2], false)
		require.ErrorContains(t, err, text)
	}
	_, err := NewPipelineSchedule(2, 4, 2, true)
	require.ErrorContains(t, err, "zero-bubble schedule with 2 chunks")
}

// TestPipelineDrawing: the drawing is XML with a box for each step.
func TestPipelineDrawing(t *testing.T) {
	s, err := NewPipelineSchedule(4, 8, 2, false)
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, s.WriteSVG(&out))
	boxes := 0
	for d := xml.NewDecoder(&out); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "rect" {
			boxes++
		}
	}
	require.Equal(t, 2*4*8*2, boxes)
}
