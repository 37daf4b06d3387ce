// Command customop launches an operator of a custom package: package rowscale has the operator's header, its
// binding, and its emulation for tests.
//
//	go run -tags emu ./examples/customop
//	ASCEND_CUSTOM_OPP_PATH=/opt/vendors/mine go run ./examples/customop      on a device
package main
