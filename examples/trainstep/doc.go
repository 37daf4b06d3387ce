// Command trainstep trains a model of the Qwen3 family on text. It launches every operator through CANN's C
// ABI: on an Ascend NPU, or with the build tag emu on the emulator.
//
//	go run -tags emu ./examples/trainstep
//	go run -tags emu ./examples/trainstep -ranks 8 -tp 2 -pp 2 -micro 2        (dp 2)
//	go run ./examples/launch -n 8 -- trainstep -model qwen3_moe -ep 4 -fsdp    (a process per device)
//
// By default it trains a small byte-level model on the sources around it for 100 steps and
// compares the loss with that of a model that only knows how often each byte occurs.
package main
