// Command customop launches an operator of one's own: package rowscale has its header, its binding, and its
// emulation for tests.
//
//	go run -tags emu ./examples/customop
//	ASCEND_CUSTOM_OPP_PATH=/opt/vendors/mine go run ./examples/customop      on a device
package main
