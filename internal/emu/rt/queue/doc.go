// Package queue emulates how programs pass data on outside operators: queues with routes between
// them and channels of datasets (acltdt…), and the pairs of address and size that CANN calls data
// buffers.
//
//	q := queue.New(runtime)
//	for name, f := range q.Functions() { … } // C name -> function over 64-bit words
//
// Data is copied in and out, within one process. Functions that need a program on the device
// itself, such as those that pass buffers by reference, are refused, as on chips that cannot run
// one. The package does not use streams: no task waits for a queue.
package queue
