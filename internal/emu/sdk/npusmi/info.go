package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/goascend/cann/internal/abi/soc"
	"github.com/goascend/cann/internal/emu/dcmi"
	"github.com/goascend/cann/internal/emu/rt"
)

// query holds the arguments of "info -t kind -i card -c chip". The chip -1 stands for all chips of the card.
type query struct {
	kind       string
	card, chip int
}

// parse reads the words after "info".
func parse(args []string) (q query, err error) {
	q.card, q.chip = -1, -1
	if len(args)%2 != 0 {
		return q, fmt.Errorf("%q has no value", args[len(args)-1])
	}
	given := map[string]bool{}
	for ; len(args) > 0; args = args[2:] {
		if given[args[0]] {
			return q, fmt.Errorf("%s is given twice", args[0])
		}
		given[args[0]] = true
		number := map[string]*int{"-i": &q.card, "-c": &q.chip}[args[0]]
		switch {
		case args[0] == "-t":
			q.kind = args[1]
		case number == nil:
			return q, fmt.Errorf("%q is unknown; -t, -i and -c are possible", args[0])
		default:
			if *number, err = strconv.Atoi(args[1]); err != nil || *number < 0 {
				return q, fmt.Errorf("%s %q is no number of a card or chip", args[0], args[1])
			}
		}
	}
	if _, ok := kinds[q.kind]; !ok {
		return q, fmt.Errorf("-t %q is not emulated; %s are", q.kind, strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
	}
	if q.card < 0 {
		return q, fmt.Errorf("-t %s needs -i, the number of a card", q.kind)
	}
	return q, nil
}

// field is a line of an answer.
type field struct {
	name  string
	value any
}

// die is a chip of the emulated machine. Its memory and cores are those of another process, which has no part in what
// the file of CANN_EMU_HEALTH says: nothing is in use as far as this one can see.
type die struct {
	config rt.Config
	place  int // of all dies
	chip   soc.Chip
	rt.Health
}

// kinds are the lines of each kind of answer about a chip, in the order of CANN's driver.
var kinds = map[string]func(d die) []field{
	"board": func(d die) []field {
		hex := func(n uint32) string { return fmt.Sprintf("0x%X", n) }
		return []field{
			{"Product Name", dcmi.Product}, {"Model", dcmi.ChipName(d.config)}, {"Manufacturer", dcmi.Manufacturer}, {"Serial Number", dcmi.Serial(d.card())},
			{"Software Version", dcmi.SoftwareVersion}, {"Firmware Version", dcmi.SoftwareVersion}, {"Compatibility", "OK"}, {"Board ID", fmt.Sprintf("%#x", dcmi.Board(d.config))}, {"PCB ID", "A"}, {"BOM ID", 0},
			{"PCIe Bus Info", d.bus()}, {"Slot ID", d.place}, {"Class ID", "NA"}, {"PCI Vendor ID", hex(dcmi.Vendor)}, {"PCI Device ID", hex(dcmi.PCIDevice)},
			{"Subsystem Vendor ID", hex(dcmi.Vendor)}, {"Subsystem Device ID", hex(0)}, {"Chip Name", dcmi.ChipName(d.config)}, {"Chip Type", dcmi.Maker}, {"Chip Version", dcmi.ChipVersion},
		}
	},
	"common": func(d die) []field {
		return []field{
			{"Memory Usage Rate(%)", 0}, {"HBM Usage Rate(%)", 0}, {"Aicore Usage Rate(%)", 0}, {"Aicore Freq(MHZ)", d.chip.Megahertz},
			{"Aicore curFreq(MHZ)", d.chip.Megahertz}, {"Aicore Count", d.chip.Cube}, {"Temperature(C)", d.Celsius}, {"NPU Real-time Power(W)", d.watts()},
		}
	},
	"usages": func(d die) []field {
		return []field{
			{"DDR Capacity(MB)", 0}, {"DDR Usage Rate(%)", 0}, {"DDR Hugepages Total(page)", 0}, {"DDR Hugepages Usage Rate(%)", 0},
			{"HBM Capacity(MB)", d.config.Memory >> 20}, {"HBM Usage Rate(%)", 0}, {"Aicore Usage Rate(%)", 0}, {"Aivector Usage Rate(%)", 0},
			{"Aicpu Usage Rate(%)", 0}, {"Ctrlcpu Usage Rate(%)", 0}, {"DDR Bandwidth Usage Rate(%)", 0}, {"HBM Bandwidth Usage Rate(%)", 0}, {"NPU Utilization(%)", 0},
		}
	},
	"memory": func(d die) []field {
		return []field{
			{"DDR Capacity(MB)", 0}, {"DDR Clock Speed(MHz)", 0}, {"HBM Capacity(MB)", d.config.Memory >> 20}, {"HBM Clock Speed(MHz)", dcmi.MemoryMegahertz},
			{"HBM Temperature(C)", d.Celsius}, {"HBM Manufacturer ID", "NA"},
		}
	},
	"health": func(d die) []field {
		codes, texts := make([]string, len(d.Faults)), make([]string, len(d.Faults))
		for i, f := range d.Faults {
			codes[i], texts[i] = fmt.Sprintf("0x%x", f), rt.DescribeFault(f)
		}
		return []field{{"Health", healths[min(d.Alarm, 3)]}, {"Error Code", listed(codes)}, {"Error Information", listed(texts)}}
	},
	"temp":  func(d die) []field { return []field{{"NPU Temperature (C)", d.Celsius}} },
	"power": func(d die) []field { return []field{{"NPU Real-time Power(W)", d.watts()}} },
	"product": func(d die) []field { // dcmi_get_product_type has none either
		return []field{{"Product Type", "NA"}}
	},
	"proc-mem": func(d die) []field { return nil },
}

func listed(words []string) string {
	if len(words) == 0 {
		return "NA"
	}
	return strings.Join(words, " ")
}

func (d die) card() int     { card, _ := d.config.Card(d.place); return card }
func (d die) bus() string   { return busID(d.place) }
func (d die) watts() string { return fmt.Sprintf("%.1f", float64(d.Deciwatts)/10) }

// info answers a query: the card, and what was asked of its chips.
func info(c rt.Config, q query) (string, error) {
	named, err := dcmi.Chip(c)
	if err != nil {
		return "", err
	}
	var dies []die
	count := 0 // chips of the card
	for i := range c.Devices {
		card, place := c.Card(i)
		if card != q.card {
			continue
		}
		count++
		if q.chip >= 0 && place != q.chip {
			continue
		}
		h, err := c.Health(i)
		if err != nil {
			return "", err
		}
		dies = append(dies, die{c, i, named, h})
	}
	switch {
	case count == 0:
		return "", fmt.Errorf("there is no card %d; info -l lists the cards", q.card)
	case len(dies) == 0:
		return "", fmt.Errorf("card %d has no chip %d, it has %d", q.card, q.chip, count)
	}
	var b strings.Builder
	line := func(name string, value any) { fmt.Fprintf(&b, "\t%-30s : %v\n", name, value) }
	line("NPU ID", q.card)
	switch {
	case q.chip >= 0:
		line("Chip ID", q.chip)
	default:
		line("Chip Count", count)
	}
	for _, d := range dies {
		b.WriteString("\n")
		for _, f := range kinds[q.kind](d) {
			line(f.name, f.value)
		}
		if q.kind == "proc-mem" {
			b.WriteString("\tNo process in device.\n")
		}
		if q.chip < 0 {
			_, place := c.Card(d.place)
			line("Chip ID", place)
		}
	}
	return b.String(), nil
}
