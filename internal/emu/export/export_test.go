package export_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/machine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEverySymbolOfTheTableIsExported(t *testing.T) {
	table, err := abi.Load()
	require.NoError(t, err)
	found := map[uintptr]string{}
	for _, name := range table.Symbols() {
		address := machine.Lookup(name)
		require.NotZero(t, address, name)
		assert.Empty(t, found[address], "%s and %s share an address", name, found[address])
		found[address] = name
	}
	for _, name := range []string{"", "acl", "aclnnAd", "aclnnAddd", "malloc", "zzz", "HcclZ"} {
		assert.Zero(t, machine.Lookup(name), name)
	}
}

// TestWords compiles a C program against the generated symbols, see testdata/words.c.
func TestWords(t *testing.T) {
	program := filepath.Join(t.TempDir(), "words")
	out, err := exec.Command("gcc", "-std=c11", "-Wall", "-Wextra", "-Werror",
		"testdata/words.c", "symbols.c", "zz_functions.c", "-o", program).CombinedOutput()
	require.NoError(t, err, string(out))
	out, err = exec.Command(program).CombinedOutput()
	require.NoError(t, err, string(out))
}
