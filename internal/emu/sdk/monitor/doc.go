// Command monitor uses libdcmi as the device plugins, exporters and monitors of Ascend clusters do: it opens the
// library, looks up each of the 65 functions that they look up, finds the devices of each card, and prints what the
// driver reports of them: health, temperature, memory, use and processes. With -events it waits for one fault and
// prints it. It is a test of the SDK, and an example of a program in Go that knows nothing of this module.
//
//	monitor -library $ASCEND_HOME_PATH/lib64/libdcmi.so
package main
