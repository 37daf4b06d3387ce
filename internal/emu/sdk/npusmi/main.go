package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

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
		text = table(c)
	case slices.Equal(args, []string{"info", "-l"}):
		text = devices(c)
	case slices.Equal(args, []string{"info", "-m"}):
		text = chips(c)
	default:
		return fmt.Errorf("%q is not emulated; info, info -l and info -m are", strings.Join(args, " "))
	}
	_, err = io.WriteString(w, text)
	return err
}

// chip returns the name of the chip without its maker: 910B1 for Ascend910B1.
func chip(c rt.Config) string { return strings.TrimPrefix(c.SoC, "Ascend") }

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

func table(c rt.Config) string {
	const version = "emulated"
	var b strings.Builder
	b.WriteString("+" + strings.Repeat("-", width) + "+\n")
	b.WriteString(row(fmt.Sprintf("npu-smi %-24s Version: %s", version, version)))
	b.WriteString(rule("-"))
	b.WriteString(row("NPU   Name", "Health", "Power(W)    Temp(C)           Hugepages-Usage(page)"))
	b.WriteString(row("Chip", "Bus-Id", "AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)"))
	b.WriteString(rule("="))
	for i := range c.Devices {
		b.WriteString(row(fmt.Sprintf("%-5d %s", i, chip(c)), "OK", "0.0         0                 0    / 0"))
		b.WriteString(row("0", fmt.Sprintf("0000:%02X:00.0", i+1), fmt.Sprintf("0           0    / 0          0    / %d", c.Memory>>20)))
		b.WriteString(rule("="))
	}
	b.WriteString(rule("-"))
	b.WriteString(row("NPU     Chip", "Process id", "Process name             Process memory(MB)"))
	b.WriteString(rule("="))
	for i := range c.Devices {
		b.WriteString(row(fmt.Sprintf("No running processes found in NPU %d", i)))
		b.WriteString(rule("="))
	}
	return b.String()
}

func devices(c rt.Config) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\t%-30s : %d\n", "Total Count", c.Devices)
	for i := range c.Devices {
		fmt.Fprintf(&b, "\n\t%-30s : %d\n\t%-30s : %d\n", "NPU ID", i, "Chip Count", 1)
	}
	return b.String()
}

func chips(c rt.Config) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\t%-30s %-30s %-30s %s\n", "NPU ID", "Chip ID", "Chip Logic ID", "Chip Name")
	for i := range c.Devices {
		fmt.Fprintf(&b, "\t%-30d %-30d %-30d Ascend %s\n", i, 0, i, chip(c))
	}
	return b.String()
}
