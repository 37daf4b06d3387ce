package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/goascend/cann/internal/emu/dcmi"
	"github.com/goascend/cann/internal/emu/rt"
)

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "npu-smi:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, args []string) error {
	c, err := rt.ConfigFromEnv()
	if err != nil {
		return err
	}
	var text string
	switch {
	case slices.Equal(args, []string{"info"}):
		text, err = table(c)
	case slices.Equal(args, []string{"info", "-l"}):
		text = devices(c)
	case slices.Equal(args, []string{"info", "-m"}):
		text = chips(c)
	case len(args) > 1 && args[0] == "info":
		var q query
		if q, err = parse(args[1:]); err == nil {
			text, err = info(c, q)
		}
	default:
		return fmt.Errorf("%q is not emulated; info, info -l, info -m and info -t are", strings.Join(args, " "))
	}
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	return err
}

// busID returns the place of a die on the PCI bus.
func busID(die int) string { return fmt.Sprintf("0000:%02X:00.0", dcmi.Bus(die)) }

// width is the number of characters between the frames of a row of the table.
const width = 96

// row returns a line of the table with cells of fixed widths.
func row(cells ...string) string {
	widths := []int{27, 15, width - 27 - 15 - 2}
	if len(cells) == 1 {
		widths = []int{width}
	}
	var b strings.Builder
	for i, cell := range cells {
		fmt.Fprintf(&b, "| %-*s", widths[i]-1, cell)
	}
	return b.String() + "|\n"
}

// rule returns a line between rows.
func rule(with string) string {
	return "+" + strings.Repeat(with, 27) + "+" + strings.Repeat(with, 15) + "+" + strings.Repeat(with, width-27-15-2) + "+\n"
}

// healths are the words for alarms.
var healths = [...]string{"OK", "Warning", "Alarm", "Critical"}

func table(c rt.Config) (string, error) {
	const version = dcmi.SoftwareVersion
	var b strings.Builder
	b.WriteString("+" + strings.Repeat("-", width) + "+\n")
	b.WriteString(row(fmt.Sprintf("npu-smi %-24s Version: %s", version, version)))
	b.WriteString(rule("-"))
	b.WriteString(row("NPU   Name", "Health", "Power(W)    Temp(C)           Hugepages-Usage(page)"))
	b.WriteString(row("Chip", "Bus-Id", "AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)"))
	b.WriteString(rule("="))
	for i := range c.Devices {
		h, err := c.Health(i)
		if err != nil {
			return "", err
		}
		card, place := c.Card(i)
		b.WriteString(row(fmt.Sprintf("%-5d %s", card, dcmi.ChipName(c)), healths[min(h.Alarm, 3)], fmt.Sprintf("%-11.1f %-17d 0    / 0", float64(h.Deciwatts)/10, h.Celsius)))
		b.WriteString(row(strconv.Itoa(place), busID(i), fmt.Sprintf("0           0    / 0          0    / %d", c.Memory>>20)))
		b.WriteString(rule("="))
	}
	b.WriteString(rule("-"))
	b.WriteString(row("NPU     Chip", "Process id", "Process name             Process memory(MB)"))
	b.WriteString(rule("="))
	for i := range c.Devices {
		b.WriteString(row(fmt.Sprintf("No running processes found in NPU %d", i)))
		b.WriteString(rule("="))
	}
	return b.String(), nil
}

func devices(c rt.Config) string {
	var b strings.Builder
	counts := make(map[int]int) // of the chips of a card
	for i := range c.Devices {
		card, _ := c.Card(i)
		counts[card]++
	}
	fmt.Fprintf(&b, "\t%-30s : %d\n", "Total Count", len(counts))
	for card := range len(counts) {
		fmt.Fprintf(&b, "\n\t%-30s : %d\n\t%-30s : %d\n", "NPU ID", card, "Chip Count", counts[card])
	}
	return b.String()
}

func chips(c rt.Config) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\t%-30s %-30s %-30s %s\n", "NPU ID", "Chip ID", "Chip Logic ID", "Chip Name")
	for i := range c.Devices {
		card, place := c.Card(i)
		fmt.Fprintf(&b, "\t%-30d %-30d %-30d %s %s\n", card, place, i, dcmi.Maker, dcmi.ChipName(c))
	}
	return b.String()
}
