// Command launch starts the ranks of a job on this host: one process per device, with the
// variables that torchrun sets.
//
//	launch -n 8 -- ./trainstep -tp 2
//	launch -n 8 -nodes 2 -node 0 -master 10.0.0.5:29500 -- ./trainstep     (and -node 1 on the other)
//	launch -- ./trainstep                                                  (in a pod of the ascend-operator)
//
// Lines of a rank's output begin with its number. Signals are forwarded to all ranks; a second
// interrupt kills them. When a rank fails, launch reports its number, how it ended and its last lines, ends
// the others, and exits with its status.
//
// The ranks of one host get a random secret (CANN_JOB_SECRET) to authenticate each other; for
// several hosts, set the same long random text on each of them: without it, the rendezvous is on the loopback
// only, unless CANN_JOB_OPEN is 1.
package main
