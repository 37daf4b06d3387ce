//go:build linux && cgo

package main

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>
#include "monitor.h"

static void *look_up(void *library, const char *name) { return dlsym(library, name); }
static int call0(void *f) { return ((int (*)(void))f)(); }
static int list(void *f, int *n, int *cards, int length) { return ((int (*)(int *, int *, int))f)(n, cards, length); }
static int of_card(void *f, int card, int *n) { return ((int (*)(int, int *))f)(card, n); }
static int logic_id(void *f, int *id, int card, int device) { return ((int (*)(int *, int, int))f)(id, card, device); }
static int physical(void *f, unsigned logic, unsigned *id) { return ((int (*)(unsigned, unsigned *))f)(logic, id); }
static int of_device(void *f, int card, int device, void *out) { return ((int (*)(int, int, void *))f)(card, device, out); }
static int kind_of(void *f, int card, int device, int kind, unsigned *out) { return ((int (*)(int, int, int, unsigned *))f)(card, device, kind, out); }
static int processes(void *f, int card, int device, struct process *list, int *n) { return ((int (*)(int, int, struct process *, int *))f)(card, device, list, n); }
static int errors(void *f, int card, int device, int *n, unsigned *codes, unsigned length) { return ((int (*)(int, int, int *, unsigned *, unsigned))f)(card, device, n, codes, length); }
static int subscribe(void *f) { struct filter all = {0}; return ((int (*)(int, int, struct filter, void (*)(struct event *)))f)(-1, -1, all, monitor_event); }
*/
import "C"

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"unsafe"
)

// names are the functions of the library that device plugins, exporters and monitors look up, without "dcmi_".
var names = strings.Fields(`
	create_vdevice get_affinity_cpu_info_by_device_id get_card_elabel_v2 get_card_id_device_id_from_logicid get_card_list
	get_card_num_list get_dcmi_version get_device_board_info get_device_boot_status get_device_chip_info
	get_device_chip_info_v2 get_device_die_v2 get_device_ecc_info get_device_errorcode get_device_errorcode_v2
	get_device_frequency get_device_hbm_info get_device_health get_device_id_in_card get_device_info get_device_ip
	get_device_logic_id get_device_logicid_from_phyid get_device_memory_info_v3 get_device_multi_utilization_rate
	get_device_multi_utilization_rate_period get_device_network_health get_device_num_in_card
	get_device_outband_channel_state get_device_pcie_info_v2 get_device_phyid_from_logicid get_device_power_info
	get_device_resource_info get_device_temperature get_device_type get_device_utilization_rate get_device_voltage
	get_eid_list_by_urma_dev_index get_hccs_link_bandwidth_info get_hccsping_mesh_info get_hccsping_mesh_state
	get_mainboard_id get_memory_info get_multi_die_policy get_netdev_brother_device get_npu_work_mode
	get_pcie_link_bandwidth_info get_product_type get_spod_node_status get_ub_ping_mesh_info get_ub_ping_mesh_state
	get_urma_device_cnt init mcu_get_power_info pre_reset_soc rescan_soc set_destroy_vdevice set_device_reset
	set_multi_die_policy set_spod_node_status start_hccsping_mesh start_ub_ping_mesh stop_hccsping_mesh
	stop_ub_ping_mesh subscribe_fault_event`)

// library is an open libdcmi with its functions, by name.
type library map[string]unsafe.Pointer

func open(path string) (library, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	handle := C.dlopen(name, C.RTLD_LAZY|C.RTLD_GLOBAL)
	if handle == nil {
		return nil, errors.New(C.GoString(C.dlerror()))
	}
	l := library{}
	for _, name := range names {
		symbol := C.CString("dcmi_" + name)
		l[name] = C.look_up(handle, symbol)
		C.free(unsafe.Pointer(symbol))
		if l[name] == nil {
			return nil, fmt.Errorf("%s has no dcmi_%s", path, name)
		}
	}
	return l, nil
}

// code makes an error of the code that a function of the library returned, nil for 0.
func code(function string, n C.int) error {
	if n != 0 {
		return fmt.Errorf("dcmi_%s: %d", function, int(n))
	}
	return nil
}

func (l library) report(w io.Writer) error {
	if err := code("init", C.call0(l["init"])); err != nil {
		return err
	}
	var cards [64]C.int
	var n, dies, logic C.int
	if err := code("get_card_num_list", C.list(l["get_card_num_list"], &n, &cards[0], C.int(len(cards)))); err != nil {
		return err
	}
	fmt.Fprintf(w, "%d functions, %d cards\n", len(l), n)
	for _, card := range cards[:n] {
		if err := code("get_device_num_in_card", C.of_card(l["get_device_num_in_card"], card, &dies)); err != nil {
			return err
		}
		for die := range dies {
			if err := code("get_device_logic_id", C.logic_id(l["get_device_logic_id"], &logic, card, die)); err != nil {
				return err
			}
			if err := l.device(w, card, die, uint32(logic)); err != nil {
				return err
			}
		}
	}
	return nil
}

// device prints what the driver reports of a device.
func (l library) device(w io.Writer, card, die C.int, logic uint32) (err error) {
	ask := func(name string, out unsafe.Pointer) {
		err = errors.Join(err, code(name, C.of_device(l[name], card, die, out)))
	}
	var physical, health, load C.uint
	var celsius, network, faults, running C.int
	var chip C.struct_chip
	var memory C.struct_memory
	var codes [128]C.uint
	var list [32]C.struct_process
	err = code("get_device_phyid_from_logicid", C.physical(l["get_device_phyid_from_logicid"], C.uint(logic), &physical))
	ask("get_device_chip_info_v2", unsafe.Pointer(&chip))
	ask("get_device_health", unsafe.Pointer(&health))
	ask("get_device_temperature", unsafe.Pointer(&celsius))
	ask("get_device_hbm_info", unsafe.Pointer(&memory))
	ask("get_device_network_health", unsafe.Pointer(&network))
	err = errors.Join(err,
		code("get_device_utilization_rate", C.kind_of(l["get_device_utilization_rate"], card, die, 2, &load)),
		code("get_device_errorcode_v2", C.errors(l["get_device_errorcode_v2"], card, die, &faults, &codes[0], C.uint(len(codes)))),
		code("get_device_resource_info", C.processes(l["get_device_resource_info"], card, die, &list[0], &running)))
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "device %d (%d): %s %s, health %d, %d °C, %d of %d MiB, cores %d%%, network %d, %d faults, %d processes\n",
		logic, physical, C.GoString((*C.char)(unsafe.Pointer(&chip.kind[0]))), C.GoString((*C.char)(unsafe.Pointer(&chip.name[0]))),
		health, celsius, memory.used, memory.size, load, network, faults, running)
	return nil
}

var events = make(chan string, 16) // of the one subscription that the process can have

//export monitor_event
func monitor_event(e *C.struct_event) {
	events <- fmt.Sprintf("event %#x of device %d: severity %d, assertion %d: %s", uint32(e.id), e.device, e.severity, e.assertion, C.GoString(&e.name[0]))
}

func run(args []string, w io.Writer) error {
	f := flag.NewFlagSet("monitor", flag.ContinueOnError)
	path := f.String("library", "libdcmi.so", "the driver's library")
	wait := f.Int("events", 0, "wait for so many events")
	if err := f.Parse(args); err != nil {
		return err
	}
	l, err := open(*path)
	if err != nil {
		return err
	}
	if err := l.report(w); err != nil || *wait == 0 {
		return err
	}
	if err := code("subscribe_fault_event", C.subscribe(l["subscribe_fault_event"])); err != nil {
		return err
	}
	fmt.Fprintln(w, "subscribed")
	for range *wait {
		fmt.Fprintln(w, <-events)
	}
	return nil
}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "monitor:", err)
		os.Exit(1)
	}
}
