package meter

import "time"

// Times are the parts of a rank's step, in seconds. Their sum is the time of the step.
type Times struct {
	Kernels       float64 `json:"kernels"`
	Communication float64 `json:"communication"`
	Waiting       float64 `json:"waiting"`
}

// Board divides the steps of all ranks into parts. Its zero value is ready.
type Board struct {
	least map[Call]time.Duration // of a run
}

// Split divides a step, given by what each rank has measured in it.
func (b *Board) Split(ranks []Step) []Times {
	if b.least == nil {
		b.least = map[Call]time.Duration{}
	}
	for _, s := range ranks {
		for _, t := range s.Calls {
			if least, known := b.least[t.Call]; !known || t.Least < least {
				b.least[t.Call] = t.Least
			}
		}
	}
	all := make([]Times, len(ranks))
	for i, s := range ranks {
		all[i] = b.split(s)
	}
	return all
}

// split divides the step of one rank. What its stream waited for calls aside is divided as these calls
// are.
func (b *Board) split(s Step) Times {
	var calls, moving, joined, aside, movingAside time.Duration
	for _, t := range s.Calls {
		need := min(time.Duration(t.Count)*b.least[t.Call], t.Total)
		switch {
		case t.Call.Name == joining:
			joined += t.Total
		case t.Call.Aside:
			aside, movingAside = aside+t.Total, movingAside+need
		default:
			calls, moving = calls+t.Total, moving+need
		}
	}
	t := Times{Kernels: max(s.Device-calls-joined, 0).Seconds(), Communication: moving.Seconds()}
	if aside > 0 {
		t.Communication += joined.Seconds() * movingAside.Seconds() / aside.Seconds()
	}
	t.Waiting = max(s.Took.Seconds()-t.Kernels-t.Communication, 0)
	return t
}

// Slowest returns the rank whose kernels took longest, for which the others wait, and the part by which they took longer
// than those of the other ranks in the mean. There must be two ranks.
func Slowest(all []Times) (rank int, longer float64) {
	sum := 0.0
	for i, t := range all {
		sum += t.Kernels
		if t.Kernels > all[rank].Kernels {
			rank = i
		}
	}
	others := (sum - all[rank].Kernels) / float64(len(all)-1)
	return rank, all[rank].Kernels/others - 1
}

// Mean returns the mean over the ranks.
func Mean(all []Times) (mean Times) {
	n := float64(max(len(all), 1))
	for _, t := range all {
		mean.Kernels += t.Kernels / n
		mean.Communication += t.Communication / n
		mean.Waiting += t.Waiting / n
	}
	return mean
}
