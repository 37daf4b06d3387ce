package op

import "sync"

// Links holds the link flags that the ranks of this process have sent and that have not been
// collected yet.
type Links struct {
	mu   sync.Mutex
	sent map[uint64][]int64 // by communicator; 1 for each rank to which a flag was sent
}

// Mark records flags sent to some ranks.
func (l *Links) Mark(comm Communicator, ranks []int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sent == nil {
		l.sent = make(map[uint64][]int64)
	}
	if l.sent[comm.Handle] == nil {
		l.sent[comm.Handle] = make([]int64, comm.Size)
	}
	for _, r := range ranks {
		l.sent[comm.Handle][r] = 1
	}
}

// Take returns the recorded flags of a communicator and clears them.
func (l *Links) Take(comm Communicator) []int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	sent := l.sent[comm.Handle]
	delete(l.sent, comm.Handle)
	if sent == nil {
		sent = make([]int64, comm.Size)
	}
	return sent
}
