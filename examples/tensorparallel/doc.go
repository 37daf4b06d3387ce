// Command tensorparallel trains a two-layer transformer on one device, and then with its layers divided over two (tensor
// parallelism). It prints the losses of both, which agree. train.go is the shortest training with package autograd.
//
//	go run -tags emu ./examples/tensorparallel
//	go run ./examples/tensorparallel                on two devices
package main
