package parallel

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every schedule terminates when transfers are synchronous, computes each micro-batch forward
// before backward and after its inputs have arrived, and keeps few inputs alive.
func TestSchedule(t *testing.T) {
	for stages := 1; stages <= 5; stages++ {
		for micros := 1; micros <= 8; micros++ {
			t.Run(fmt.Sprintf("%d stages/%d micro-batches", stages, micros), func(t *testing.T) {
				wires := map[string]chan struct{}{}
				for s := range stages {
					for m := range micros {
						for _, kind := range []phase{forward, backward} {
							wires[fmt.Sprint(s, kind, m)] = make(chan struct{})
						}
					}
				}
				var wg sync.WaitGroup
				for s := range stages {
					program := schedule(s, stages, micros)
					follow(t, s, stages, micros, program)
					wg.Go(func() {
						for _, a := range program {
							var batch sync.WaitGroup
							for _, l := range a.batch {
								sender := s
								if l.receive {
									sender = s - 1
									if l.phase == backward {
										sender = s + 1
									}
								}
								wire := wires[fmt.Sprint(sender, l.phase, l.micro)]
								batch.Go(func() {
									if l.receive {
										<-wire
									} else {
										wire <- struct{}{}
									}
								})
							}
							batch.Wait()
						}
					})
				}
				ended := make(chan struct{})
				go func() {
					wg.Wait()
					close(ended)
				}()
				select {
				case <-ended:
				case <-time.After(10 * time.Second):
					t.Fatal("the stages wait for one another")
				}
			})
		}
	}
}

// follow checks a program without its neighbours.
func follow(t *testing.T, stage, stages, micros int, program []action) {
	t.Helper()
	came := map[string]bool{} // transfers and computations so far
	alive, most := 0, 0
	for _, a := range program {
		for _, l := range a.batch {
			if !l.receive {
				require.True(t, came[fmt.Sprint("computed", l.phase, l.micro)], "sent before it was computed: %+v", l)
			}
			came[fmt.Sprint("transfer", l.phase, l.micro, l.receive)] = true
		}
		if a.phase == exchange {
			require.NotEmpty(t, a.batch)
			continue
		}
		key := fmt.Sprint("computed", a.phase, a.micro)
		require.False(t, came[key], "twice: %+v", a)
		came[key] = true
		if a.phase == forward {
			require.True(t, stage == 0 || came[fmt.Sprint("transfer", forward, a.micro, true)])
			alive++
			most = max(most, alive)
			continue
		}
		require.True(t, came[fmt.Sprint("computed", forward, a.micro)])
		require.True(t, stage == stages-1 || came[fmt.Sprint("transfer", backward, a.micro, true)])
		alive--
	}
	for m := range micros {
		for _, kind := range []phase{forward, backward} {
			require.True(t, came[fmt.Sprint("computed", kind, m)])
		}
		assert.Equal(t, stage < stages-1, came[fmt.Sprint("transfer", forward, m, false)])
		assert.Equal(t, stage > 0, came[fmt.Sprint("transfer", backward, m, false)])
	}
	assert.LessOrEqual(t, most, stages-stage)
}
