package parallel

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/goascend/cann/ops/internal/check"
)

// PipelinePhase is the kind of a computation of a pipeline.
type PipelinePhase int

const (
	PipelineForward  PipelinePhase = iota + 1
	PipelineBackward               // with the gradients of the weights, unless the schedule has steps of their own for these
	PipelineWeights                // the gradients of the weights
)

func (p PipelinePhase) String() string {
	if p < PipelineForward || p > PipelineWeights {
		return fmt.Sprintf("phase %d", int(p))
	}
	return [...]string{"forward", "backward", "weights"}[p-1]
}

// PipelineStep is a computation of one rank: a phase of a micro-batch in one of its chunks of layers.
type PipelineStep struct {
	Phase        PipelinePhase
	Micro, Chunk int
	// Start and End are in units of a forward pass of a chunk, if the gradients of the inputs and
	// those of the weights take as long as it.
	Start, End int
}

// PipelineSchedule is the order in which the ranks of a pipeline compute. Chunk c of rank r of n is stage c·n + r of the model.
// The schedules are 1F1B (one forward, one backward), interleaved 1F1B with several chunks for each rank (Narayanan et al., arXiv 2104.04473),
// and a zero-bubble one that fills the time in which a rank would wait with the gradients of weights (ZB-H1 of Qi et al., arXiv 2401.10241).
type PipelineSchedule struct {
	Chunks     int
	ZeroBubble bool
	Steps      [][]PipelineStep // by rank, in the order in which it computes them
	Micros     int

	done [][PipelineWeights + 1]int // by rank, how many steps of each phase, while the schedule is made
}

// NewPipelineSchedule makes the schedule of micros micro-batches over ranks with chunks chunks each. Several chunks need micro-batches
// in a multiple of the ranks, and exclude zeroBubble.
func NewPipelineSchedule(ranks, micros, chunks int, zeroBubble bool) (*PipelineSchedule, error) {
	s := &PipelineSchedule{Chunks: chunks, ZeroBubble: zeroBubble, Micros: micros}
	switch {
	case ranks < 1 || micros < 1 || chunks < 1:
		return nil, check.Invalid("a pipeline of %d ranks, %d micro-batches and %d chunks; all must be positive", ranks, micros, chunks)
	case chunks > 1 && ranks == 1:
		return nil, check.Invalid("a pipeline of one rank and %d chunks; chunks shorten the waits of several ranks", chunks)
	case chunks > 1 && micros%ranks != 0:
		return nil, check.Invalid("%d micro-batches in %d chunks of each of %d ranks; interleaving takes the micro-batches in groups of %d, so give a multiple", micros, chunks, ranks, ranks)
	case chunks > 1 && zeroBubble:
		return nil, check.Invalid("a zero-bubble schedule with %d chunks; it is for one chunk of each rank", chunks)
	}
	s.Steps, s.done = make([][]PipelineStep, ranks), make([][PipelineWeights + 1]int, ranks)
	orders := make([][]PipelineStep, ranks)
	for r := range ranks {
		orders[r] = s.order(r)
	}
	s.run(orders)
	return s, nil
}

// order lists the steps of a rank for 1F1B. It computes forward as far ahead as the ranks after it need to be busy, then one
// forward and one backward in turns, and then what remains backward.
func (s *PipelineSchedule) order(rank int) (steps []PipelineStep) {
	n, all := len(s.Steps), s.Micros*s.Chunks
	ahead := n - rank - 1
	if s.Chunks > 1 {
		ahead = 2*ahead + (s.Chunks-1)*n
	}
	ahead = min(ahead, all)
	// Micro-batches pass through all chunks in groups, one for each rank.
	at := func(phase PipelinePhase, i int) PipelineStep {
		group := n
		if s.Chunks == 1 {
			group = 1
		}
		chunk := i / group % s.Chunks
		if phase == PipelineBackward {
			chunk = s.Chunks - 1 - chunk
		}
		return PipelineStep{Phase: phase, Micro: i/(group*s.Chunks)*group + i%group, Chunk: chunk}
	}
	for i := range all + ahead {
		if i < all {
			steps = append(steps, at(PipelineForward, i))
		}
		if i >= ahead {
			steps = append(steps, at(PipelineBackward, i-ahead))
		}
	}
	return steps
}

// next chooses a rank's next step: that of its order if what it reads is ready, else the gradients of weights, if they are steps of their own. These
// also come first when the activations of as many micro-batches are held as the first rank of 1F1B holds.
func (s *PipelineSchedule) next(rank int, order []PipelineStep, ready func(PipelineStep) bool) (PipelineStep, bool) {
	done := s.done[rank]
	weights := PipelineStep{Phase: PipelineWeights, Micro: done[PipelineWeights]}
	pending := s.ZeroBubble && done[PipelineWeights] < done[PipelineBackward]
	if at := done[PipelineForward] + done[PipelineBackward]; at < len(order) {
		full := order[at].Phase == PipelineForward && done[PipelineForward]-done[PipelineWeights] >= len(s.Steps)
		if ready(order[at]) && !(pending && full) {
			return order[at], true
		}
	}
	return weights, pending
}

// stage returns the stage of the model that a rank's chunk is.
func (s *PipelineSchedule) stage(rank, chunk int) int { return chunk*len(s.Steps) + rank }

// stages returns the number of stages of the model.
func (s *PipelineSchedule) stages() int { return s.Chunks * len(s.Steps) }

// run lets every rank take its next step as soon as what the step reads is there.
func (s *PipelineSchedule) run(orders [][]PipelineStep) {
	type result struct {
		phase        PipelinePhase
		micro, stage int
	}
	ends := map[result]int{}
	busy := make([]int, len(s.Steps)) // until when
	total := 2 * s.Micros * s.Chunks * len(s.Steps)
	if s.ZeroBubble {
		total = total / 2 * 3
	}
	for taken, now := 0, 0; taken < total; now++ {
		for rank := range s.Steps {
			if busy[rank] > now {
				continue
			}
			step, ok := s.next(rank, orders[rank], func(p PipelineStep) bool {
				for _, r := range [2]result{{PipelineForward, p.Micro, s.stage(rank, p.Chunk) - 1}, {PipelineBackward, p.Micro, s.stage(rank, p.Chunk) + 1}} {
					end, made := ends[r]
					if r.phase == p.Phase && r.stage >= 0 && r.stage < s.stages() && (!made || end > now) {
						return false
					}
				}
				return true
			})
			if !ok {
				continue
			}
			step.Start, step.End = now, now+1
			if step.Phase == PipelineBackward && !s.ZeroBubble {
				step.End++
			}
			ends[result{step.Phase, step.Micro, s.stage(rank, step.Chunk)}] = step.End
			busy[rank] = step.End
			s.Steps[rank] = append(s.Steps[rank], step)
			s.done[rank][step.Phase]++
			taken++
		}
	}
}

// Length returns the time of the schedule, in units of a forward pass of a chunk.
func (s *PipelineSchedule) Length() int {
	end := 0
	for _, steps := range s.Steps {
		end = max(end, steps[len(steps)-1].End)
	}
	return end
}

// Bubble returns the part of the time in which ranks wait, from 0 to 1.
func (s *PipelineSchedule) Bubble() float64 {
	busy := 0
	for _, steps := range s.Steps {
		for _, p := range steps {
			busy += p.End - p.Start
		}
	}
	return 1 - float64(busy)/float64(s.Length()*len(s.Steps))
}

// WriteSVG draws the schedule: a row for each rank, and in it a box for each step with the number of its micro-batch.
func (s *PipelineSchedule) WriteSVG(w io.Writer) error {
	const unit, height, left = 22, 22, 60
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="11">`+"\n", left+s.Length()*unit+1, len(s.Steps)*height+1)
	colours := map[PipelinePhase][]string{
		PipelineForward: {"#9ecbff", "#5aa2ee"}, PipelineBackward: {"#a8e0a8", "#62b562"}, PipelineWeights: {"#ffd48a", "#ffd48a"},
	}
	for rank, steps := range s.Steps {
		fmt.Fprintf(out, `<text x="2" y="%d">rank %d</text>`+"\n", rank*height+15, rank)
		for _, p := range steps {
			x, width := left+p.Start*unit, (p.End-p.Start)*unit
			fmt.Fprintf(out, `<rect x="%d" y="%d" width="%d" height="%d" fill="%s" stroke="#444"><title>%v of micro-batch %d in chunk %d</title></rect>`, x, rank*height, width, height, colours[p.Phase][p.Chunk%2], p.Phase, p.Micro, p.Chunk)
			fmt.Fprintf(out, `<text x="%d" y="%d" text-anchor="middle">%d</text>`+"\n", x+width/2, rank*height+15, p.Micro)
		}
	}
	fmt.Fprintln(out, "</svg>")
	return out.Flush()
}

// transfer is a tensor on its way between the ranks of a schedule: the activation of a micro-batch to the next stage, or its gradient
// to the previous one. Chunk is the receiver's or the sender's own.
type transfer struct {
	phase        PipelinePhase // PipelineForward or PipelineBackward
	micro, chunk int
	peer         int
	receive      bool
}

// tensor returns which tensor of the chunk is sent or received.
func (t transfer) tensor() kind {
	switch {
	case t.phase == PipelineForward && t.receive:
		return input
	case t.phase == PipelineForward:
		return output
	case t.receive:
		return dOutput
	}
	return dInput
}

// action is a part of a rank's program: a computation, or else transfers that are under way at the same time.
type action struct {
	step  *PipelineStep
	batch []transfer
}

// program returns what a rank does. All transfers of results that are ready at one time go into one batch of each rank, and the batches of all ranks
// are in the order of these times; so ranks that send to each other do not wait for one another.
func (s *PipelineSchedule) program(rank int) (actions []action) {
	batches := map[int][]transfer{}
	for from, steps := range s.Steps {
		for _, p := range steps {
			to := s.stage(from, p.Chunk) + 1
			if p.Phase == PipelineBackward {
				to -= 2
			}
			if p.Phase == PipelineWeights || to < 0 || to >= s.stages() {
				continue
			}
			peer, chunk := to%len(s.Steps), to/len(s.Steps)
			if from == rank {
				batches[p.End] = append(batches[p.End], transfer{p.Phase, p.Micro, p.Chunk, peer, false})
			}
			if peer == rank {
				batches[p.End] = append(batches[p.End], transfer{p.Phase, p.Micro, chunk, from, true})
			}
		}
	}
	times := make([]int, 0, len(batches))
	for at := range batches {
		times = append(times, at)
	}
	slices.Sort(times)
	for i := range s.Steps[rank] {
		p := &s.Steps[rank][i]
		for len(times) > 0 && times[0] <= p.Start {
			actions = append(actions, action{batch: sorted(batches[times[0]])})
			times = times[1:]
		}
		actions = append(actions, action{step: p})
	}
	for _, at := range times {
		actions = append(actions, action{batch: sorted(batches[at])})
	}
	return actions
}

// sorted gives the messages of two peers the same order on both.
func sorted(batch []transfer) []transfer {
	slices.SortFunc(batch, func(a, b transfer) int { return cmp.Or(cmp.Compare(a.phase, b.phase), cmp.Compare(a.micro, b.micro)) })
	return batch
}
