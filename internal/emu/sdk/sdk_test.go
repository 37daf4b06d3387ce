package main

import (
	"bufio"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
)

// folder returns the folder of the SDK that `make sdk` built. Building it takes too long for a
// test, so .ci/sdk builds it and passes the path.
func folder(t *testing.T) string {
	dir := os.Getenv("CANN_SDK")
	if dir == "" {
		t.Skip("CANN_SDK does not name an SDK; .ci/sdk builds one and runs this test")
	}
	return dir
}

// TestSymbols checks that the emulator's library has every function of the table.
func TestSymbols(t *testing.T) {
	dir := folder(t)
	table, err := abi.Load()
	require.NoError(t, err)
	exported := exports(t, filepath.Join(dir, "lib64/libcann_emu.so"))
	for _, name := range table.Symbols() {
		require.True(t, exported[name], "%s is not exported", name)
	}
}

// exports returns the names of the functions that a library defines.
func exports(t *testing.T, file string) map[string]bool {
	t.Helper()
	library, err := elf.Open(file)
	require.NoError(t, err)
	defer library.Close()
	soname, err := library.DynString(elf.DT_SONAME)
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Base(file)}, soname)
	symbols, err := library.DynamicSymbols()
	require.NoError(t, err)
	names := map[string]bool{}
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Section != elf.SHN_UNDEF {
			names[s.Name] = true
		}
	}
	return names
}

// TestLibraries checks that each of CANN's libraries has its own name and its own functions, and
// that a program records the libraries that it was linked with.
func TestLibraries(t *testing.T) {
	dir := folder(t)
	for library, functions := range map[string][2]string{ // a function that the library has, and one that it lacks
		"lib64/libascendcl.so": {"aclrtMalloc", "aclnnAdd"}, "lib64/libacl_rt.so": {"aclrtMalloc", "aclmdlLoadFromFile"},
		"lib64/libnnopbase.so": {"aclCreateTensor", "aclnnAdd"}, "lib64/libopapi.so": {"aclnnAdd", "aclCreateTensor"},
		"lib64/libhccl.so": {"HcclAllReduce", "aclInit"}, "lib64/libacl_op_compiler.so": {"aclopCompile", "aclInit"},
		"lib64/libmsprofiler.so": {"aclprofInit", "aclInit"}, "lib64/libascend_dump.so": {"acldumpRegCallback", "aclInit"},
		"lib64/libacl_tdt_channel.so": {"acltdtCreateChannel", "aclInit"}, "lib64/libacl_tdt_queue.so": {"acltdtCreateQueue", "aclInit"},
		"lib64/libms_tools_ext.so": {"", "aclInit"}, "lib64/libacl_rt_impl.so": {"", "aclInit"}, "lib64/libprofapi.so": {"", "aclInit"}, "lib64/libc_sec.so": {"", "aclInit"},
		"opp/vendors/emu/op_api/lib/libcust_opapi.so": {"aclnnSliceNz", "aclnnAdd"},
	} {
		has := exports(t, filepath.Join(dir, library))
		require.True(t, functions[0] == "" || has[functions[0]], "%s lacks %s", library, functions[0])
		require.False(t, has[functions[1]], "%s has %s", library, functions[1])
	}
	program, err := elf.Open(built(t, dir, compilers[0], "testdata/add.c", "ascendcl", "nnopbase", "opapi"))
	require.NoError(t, err)
	defer program.Close()
	needed, err := program.ImportedLibraries()
	require.NoError(t, err)
	require.Subset(t, needed, []string{"libascendcl.so", "libnnopbase.so", "libopapi.so"})
	require.NotContains(t, needed, "libcann_emu.so")
}

// TestSMI checks that npu-smi is on the path of set_env.sh.
func TestSMI(t *testing.T) {
	dir := folder(t)
	require.Equal(t, "910B1\n", output(t, dir, "npu-smi info | awk 'NR==7 {print $3}'"))
}

// TestCMake checks that a CMake project finds the package after set_env.sh without further
// settings.
func TestCMake(t *testing.T) {
	dir := folder(t)
	if _, err := exec.LookPath("cmake"); err != nil {
		t.Skip(err)
	}
	build := t.TempDir()
	script := fmt.Sprintf("source %s/set_env.sh && cmake -S testdata -B %s && cmake --build %[2]s && %[2]s/add", dir, build)
	out, err := exec.Command("bash", "-c", script).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "sum 11 22 33 44 55\n")
}

// TestBareNames checks that compilers find headers and libraries after set_env.sh, and operator
// headers also without their folder.
func TestBareNames(t *testing.T) {
	dir := folder(t)
	source := filepath.Join(t.TempDir(), "bare.c")
	require.NoError(t, os.WriteFile(source, []byte("#include \"aclnn_floor_divide.h\"\n#include \"aclnnop/aclnn_add.h\"\n#include \"aclnn/aclnn_base.h\"\n#include <acl/acl_rt.h>\n#include <hccl/hccl.h>\nint main(void) { return aclInit(0); }\n"), 0o600))
	script := fmt.Sprintf("source %s/set_env.sh && gcc -Wall -Wextra -Werror -o %s.out %[2]s -lascendcl && %[2]s.out", dir, source)
	out, err := exec.Command("bash", "-c", script).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// compilers builds the same files as C and as C++.
var compilers = [][]string{{"gcc", "-std=c11"}, {"g++", "-std=c++11", "-x", "c++"}}

// built compiles a program against headers and libraries.
func built(t *testing.T, dir string, compiler []string, source string, libraries ...string) (program string) {
	t.Helper()
	if _, err := exec.LookPath(compiler[0]); err != nil {
		t.Skip(err)
	}
	program = filepath.Join(t.TempDir(), "program")
	args := append(compiler[1:], "-Wall", "-Wextra", "-Werror", source, "-o", program, "-I", filepath.Join(dir, "include"), "-L", filepath.Join(dir, "lib64"))
	for _, l := range libraries {
		args = append(args, "-l"+l)
	}
	message, err := exec.Command(compiler[0], args...).CombinedOutput()
	require.NoError(t, err, "%s", message)
	return program
}

// output runs a program with only the environment of set_env.sh.
func output(t *testing.T, dir, command string) string {
	t.Helper()
	out, err := exec.Command("bash", "-c", fmt.Sprintf("source %s/set_env.sh && %s", dir, command)).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// TestPrograms runs programs that launch operators many times.
func TestPrograms(t *testing.T) {
	dir := folder(t)
	for _, compiler := range compilers {
		t.Run(compiler[0], func(t *testing.T) {
			out := output(t, dir, built(t, dir, compiler, "testdata/add.c", "ascendcl", "nnopbase", "opapi"))
			require.Contains(t, out, "sum 11 22 33 44 55\n")
			require.Regexp(t, `missing \d+ .*aclnnSvd`, out)
			growth := regexp.MustCompile(`growth (-?\d+) KiB`).FindStringSubmatch(out)
			require.Len(t, growth, 2)
			kib, err := strconv.Atoi(growth[1])
			require.NoError(t, err)
			require.Less(t, kib, 1024, "10000 launches should not need more memory")
		})
	}
}

// TestBoundedCopies tests the header of the bounded copies that CANN's programs use.
func TestBoundedCopies(t *testing.T) {
	dir := folder(t)
	for _, compiler := range compilers {
		t.Run(compiler[0], func(t *testing.T) {
			require.Equal(t, "bounded\n", output(t, dir, built(t, dir, compiler, "testdata/bounded.c")))
		})
	}
}

// TestLinearAlgebra runs a program with the libraries of linear algebra and Fourier transforms, which passes records by value.
func TestLinearAlgebra(t *testing.T) {
	dir := folder(t)
	for _, compiler := range compilers {
		t.Run(compiler[0], func(t *testing.T) {
			require.Equal(t, `null 9
again 3
other chip 8
scaled -4 2
scaled 8 6
scaled -2 0
norm 11.1355, last 8
bin 0.000 0.000
bin 2.000 0.000
bin 0.000 0.000
bin 2.000 0.000
doubles: Feature not implemented
`, output(t, dir, built(t, dir, compiler, "testdata/linalg.c", "ascendcl", "ops_blas", "cann_ops_fft")))
		})
	}
}

// TestRuntimeFamilies runs a program with queues, channels, conditional graphs, shared events,
// random numbers, dumps and marks.
func TestRuntimeFamilies(t *testing.T) {
	dir := folder(t)
	for _, compiler := range compilers {
		t.Run(compiler[0], func(t *testing.T) {
			dumps := t.TempDir()
			config := filepath.Join(dumps, "acl.json")
			require.NoError(t, os.WriteFile(config, []byte(`{"dump":{"dump_path":"`+dumps+`","dump_op_switch":"on"}}`), 0o600))
			program := built(t, dir, compiler, "testdata/runtime.c", "ascendcl", "acl_tdt_queue", "acl_tdt_channel", "ascend_dump", "ms_tools_ext", "nnopbase", "opapi")
			require.Equal(t, `queue hello 6
empty 1
buffers 1 1
channel 1 1.5 2.5
branch 0 10
branch 1 20
branch 2 30
event 1
random 1 1
path `+dumps+`
dump 1 0
marks 1
`, output(t, dir, program+" "+config+" "+dumps+"/arguments"))
			for _, pattern := range []string{"*/0/Add.aclnnAdd.*", "arguments/Add_*.json"} {
				files, err := filepath.Glob(filepath.Join(dumps, pattern))
				require.NoError(t, err)
				require.Len(t, files, 1, pattern)
			}
		})
	}
}

// TestMonitor builds a Go program that uses libdcmi as device plugins do, and lets it report healthy devices, a fault
// as it occurs and as it goes.
func TestMonitor(t *testing.T) {
	dir := folder(t)
	program, health := filepath.Join(t.TempDir(), "monitor"), filepath.Join(t.TempDir(), "health")
	out, err := exec.Command("go", "build", "-o", program, "./monitor").CombinedOutput()
	require.NoError(t, err, "%s", out)
	cmd := exec.Command(program, "-library", filepath.Join(dir, "lib64/libdcmi.so"), "-events", "2")
	cmd.Env = append(os.Environ(), "CANN_EMU_HEALTH="+health, "CANN_EMU_DEVICES=3", "CANN_EMU_SOC=Ascend910_9391", "CANN_EMU_MEMORY=64M")
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(stdout)
	next := func() string {
		require.True(t, lines.Scan(), "the program ended: %v", lines.Err())
		return lines.Text()
	}
	require.Equal(t, "65 functions, 2 cards", next())
	for device := range 3 {
		require.Regexp(t, fmt.Sprintf(`^device %d \(%[1]d\): Ascend 910_9391, health 0, 40 °C, \d+ of 64 MiB, cores 0%%, network 6, 0 faults, 0 processes$`, device), next())
	}
	require.Equal(t, "subscribed", next())
	require.NoError(t, os.WriteFile(health, []byte("2 alarm=3 fault=0x80e01801\n"), 0o600))
	require.Equal(t, "event 0x80e01801 of device 2: severity 3, assertion 1: multi-bit ECC error of on-chip memory", next())
	require.NoError(t, os.Remove(health))
	require.Equal(t, "event 0x80e01801 of device 2: severity 3, assertion 0: multi-bit ECC error of on-chip memory", next())
	require.NoError(t, cmd.Wait())
}

// TestFork runs a Python program whose children call CANN before their parent does, and after.
func TestFork(t *testing.T) {
	dir := folder(t)
	for method, after := range map[string]string{
		"fork":       `after: 200001 the emulator cannot run in process \d+, a fork of process \d+, in which it was started: .* Fork before the first call of CANN, .*`,
		"spawn":      "after: sum 10",
		"forkserver": "after: sum 10",
	} {
		t.Run(method, func(t *testing.T) {
			require.Regexp(t, "^before: sum 10\nparent: sum 10\n"+after+"\nparent: 0\n$", python(t, dir, "testdata/fork.py "+method+" 2>/dev/null"))
		})
	}
}

// TestEnvironment checks that knobs hold that a Python program sets before its first call.
func TestEnvironment(t *testing.T) {
	dir := folder(t)
	t.Setenv("CANN_EMU_DEVICES", "3")
	require.Equal(t, "b'Ascend310P3' 8\n", python(t, dir, "testdata/environment.py"))
}

// python runs a Python program; see output.
func python(t *testing.T, dir, command string) string {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip(err)
	}
	return output(t, dir, "python3 "+command)
}
