// Package dcmi emulates libdcmi, the library of the driver for management, in the part that reports the
// health and the load of devices.
//
//	l := dcmi.New(runtime)
//	for name, f := range l.Interfaces() { … } // C name -> function over 64-bit words
//
// The used memory, the time in which streams were busy, and memory that failed under a task are the
// emulated device's. Alarms, errors and events come from the file of CANN_EMU_HEALTH. The rest is constant. The table has the
// functions that device plugins, exporters and monitors in Go look up; those without a Go function here answer
// DCMI_ERR_CODE_NOT_SUPPORT, as cards of Atlas A2 answer most of them: virtual devices, meshes of pings, the state of super
// pods, resets, bandwidths of links, addresses of ports. As in
// the driver, the functions know all devices of the machine, whatever ASCEND_RT_VISIBLE_DEVICES selects.
package dcmi
