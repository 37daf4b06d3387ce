// Package meter measures how the ranks of a job spend a step: in kernels, in communication, and in
// waiting for each other and for the host.
//
//	m, err := meter.New(st)
//	defer m.Close()
//	comm := m.Comm(c)                              // in place of c, for the layers of ops/parallel
//	began := time.Now()
//	…                                              // the batch is read
//	err = m.Begin()
//	…                                              // the step is queued
//	own, err := m.End(ctx, began)
//	all, err := world.Gather(ctx, group, 0, own)
//	times := board.Split(all)                      // on rank 0: a Times for each rank
//
// A pair of events around each collective takes its time on the device, which costs the host two calls
// and the device nothing that can be measured. A collective ends when the last of its ranks has come, so
// this time has two parts, which no rank can separate alone. The least time that calls of one
// kind and size have had on any rank counts as communication, and what a call takes beyond it as waiting.
// So does the time before the first work of the step, in which the device has nothing to do. The rest is
// the kernels', with the gaps between them that a slow host leaves.
//
// Collectives on other streams, beside kernels, count by what the stream of the step waits for them
// (Meter.Join). Collectives in graphs, and those inside of fused kernels, are not seen: they count as
// kernels.
package meter
