// Command matmul multiplies two matrices on a device. It is the shortest way to see how memory, operators
// and waits fit together.
//
//	go run -tags emu ./examples/matmul
//	go run ./examples/matmul                on a device
package main
