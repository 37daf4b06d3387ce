// Command attention shows for each kind of mask how attention is called, which kernel runs and why, and
// how long it takes. It also shows masks that are refused before they would fail on the device.
//
//	go run -tags emu ./examples/attention -seq 512
package main
