// Command hccltest measures the collectives of HCCL over a range of sizes and checks their results.
//
//	go run -tags emu ./examples/hccltest -p 4 -op all_reduce,all_gather -b 4K -e 64M -f 4
//	go run ./examples/launch -n 8 -- ./hccltest -op all -d bfloat16
//
// Under a launcher (torchrun, Open MPI, Slurm, examples/launch) each process is a rank; without one
// all ranks run in this process, each on its own device. The columns are those of CANN's hccl_test
// and the bus bandwidth: the bytes per second on a link in the best algorithm, which does not
// depend on the number of ranks. One GB is 1e9 bytes.
package main
