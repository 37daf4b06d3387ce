package cshim_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
)

// TestTrampoline calls, through cann_invoke, one C function for the signature of every
// operator in the table. Each function checks that all its parameters arrived. It is a C
// program of its own, so that it also runs on arm64 under qemu.
func TestTrampoline(t *testing.T) {
	if testing.Short() {
		t.Skip("ten seconds of gcc, in any build the same")
	}
	for _, target := range []struct{ name, gcc, run string }{
		{"native", "gcc", ""},
		{"arm64", "aarch64-linux-gnu-gcc", "qemu-aarch64"},
	} {
		t.Run(target.name, func(t *testing.T) {
			for _, tool := range []string{target.gcc, target.run} {
				if tool == "" {
					continue
				}
				if _, err := exec.LookPath(tool); err != nil {
					t.Skipf("%s is not installed", tool)
				}
			}
			dir := t.TempDir()
			calls := writeTrampolineProgram(t, dir)
			compile := func(args ...string) {
				flags := []string{"-std=gnu11", "-Wall", "-Wextra", "-Werror", "-I.", "-I../internal/emu/export"}
				out, err := exec.Command(target.gcc, append(flags, args...)...).CombinedOutput()
				require.NoError(t, err, "%s", out)
			}
			program, shim := filepath.Join(dir, "trampoline"), filepath.Join(dir, "shim.o")
			compile("-O2", "-c", "-o", shim, "trampoline.c")
			compile("-O0", "-static", "-o", program, filepath.Join(dir, "callees.c"), filepath.Join(dir, "main.c"), shim)

			run := exec.Command(program)
			if target.run != "" {
				run = exec.Command(target.run, program)
			}
			out, err := run.CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Equal(t, fmt.Sprintf("%d signatures\n", calls), string(out))
		})
	}
}

// writeTrampolineProgram writes callees.c, one checking function per operator, and main.c,
// which knows them as words only. The two must not be seen by one compiler run.
func writeTrampolineProgram(t *testing.T, dir string) (calls int) {
	table, err := abi.Load()
	require.NoError(t, err)
	var callees, rows strings.Builder
	callees.WriteString("#include \"zz_cann.h\"\n")
	for _, op := range table.Operators {
		prepare, _ := op.Phases()
		classes := make([]byte, len(prepare.Params))
		params := make([]string, len(prepare.Params))
		var checks strings.Builder
		for i, p := range prepare.Params {
			name := fmt.Sprintf("p%d", i)
			params[i] = p.Type + " " + name
			classes[i] = trampolineClass(p)
			switch classes[i] {
			case 'd', 'f':
				fmt.Fprintf(&checks, "\tif (%s != %d.5) return %d;\n", name, i, i+1)
			case 'p':
				fmt.Fprintf(&checks, "\tif ((uint64_t)%s != %d) return %d;\n", name, 0x7f0000000000+i*16, i+1)
			case 'b':
				fmt.Fprintf(&checks, "\tif (%s != %v) return %d;\n", name, i%2 == 1, i+1)
			case 'i':
				fmt.Fprintf(&checks, "\tif (%s != (%s)%dLL) return %d;\n", name, p.Type, -1000003*(i+1), i+1)
			}
		}
		fmt.Fprintf(&callees, "int32_t check_%s(%s);\nint32_t check_%[1]s(%[2]s)\n{\n%[3]s\treturn 0;\n}\n",
			op.Name, strings.Join(params, ", "), checks.String())
		fmt.Fprintf(&rows, "X(check_%s, \"%s\")\n", op.Name, classes)
		calls++
	}
	main := `#include "shim.h"
#include <stdio.h>
#include <string.h>
#define X(f, classes) void f(void);
` + rows.String() + `#undef X
#define X(f, classes) {#f, f, classes},
static const struct { const char *name; void (*fn)(void); const char *classes; } rows[] = {
` + rows.String() + `};
int main(void)
{
	int failed = 0, count = sizeof rows / sizeof rows[0];
	for (int r = 0; r < count; r++) {
		uint64_t ints[64];
		double floats[8] = {0};
		uint32_t n = 0, f = 0;
		memset(ints, 0xa5, sizeof ints);
		for (int i = 0; rows[r].classes[i]; i++) {
			switch (rows[r].classes[i]) {
			case 'd': floats[f++] = i + 0.5; break;
			case 'f': { float x = i + 0.5f; memset(&floats[f], 0xff, 8); memcpy(&floats[f++], &x, 4); break; }
			case 'p': ints[n++] = 0x7f0000000000 + 16 * i; break;
			case 'b': ints[n++] = i % 2; break;
			case 'i': ints[n++] = (uint64_t)(-1000003LL * (i + 1)); break;
			}
		}
		int32_t bad = (int32_t)cann_invoke((uint64_t)rows[r].fn, ints, n, floats);
		if (bad) {
			printf("%s: parameter %d arrived wrong\n", rows[r].name, bad);
			failed++;
		}
	}
	if (!failed)
		printf("%d signatures\n", count);
	return failed != 0;
}
`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "callees.c"), []byte(callees.String()), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.c"), []byte(main), 0o644))
	return calls
}

func trampolineClass(p abi.Param) byte {
	switch p.Class {
	case abi.Double:
		return 'd'
	case abi.Float:
		return 'f'
	case abi.Bool:
		return 'b'
	case abi.Int, abi.Uint, abi.Enum, abi.DType:
		return 'i'
	}
	return 'p'
}
