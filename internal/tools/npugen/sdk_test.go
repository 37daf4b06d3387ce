package main

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn/half"
	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/abi/header"
)

// TestHeadersAgree checks the SDK's headers, as C and as C++, against every constant, record and
// function type of the table and of the dumps in CANN_ABI_DIR.
func TestHeadersAgree(t *testing.T) {
	table, err := abi.Load()
	require.NoError(t, err)
	for file, version := range dumps {
		t.Run(version, func(t *testing.T) {
			out, err := headers(table, version, "")
			require.NoError(t, err)
			dir := t.TempDir()
			require.NoError(t, out.write(dir))
			var all strings.Builder
			for _, name := range headerNames(out) {
				fmt.Fprintf(&all, "#include \"%s\"\n", name)
			}
			sources := [][]byte{factsOf(table, version).assertions()}
			if d := os.Getenv("CANN_ABI_DIR"); d != "" {
				sources = append(sources, factsIn(t, filepath.Join(d, file)).assertions())
			}
			for _, compiler := range [][]string{{"gcc", "-x", "c", "-std=c11"}, {"g++", "-x", "c++", "-std=c++11"}} {
				if _, err := exec.LookPath(compiler[0]); err != nil {
					continue
				}
				for _, source := range sources {
					message, err := compile(t, []byte(all.String()), source, append(compiler, "-I", dir)...)
					require.NoError(t, err, "%.2000s", message)
				}
			}
		})
	}
}

// TestHeadersCompare reads the SDK's headers as a program reads those of an installation, and compares them with the table.
func TestHeadersCompare(t *testing.T) {
	table, err := abi.Load()
	require.NoError(t, err)
	for _, release := range abi.Releases() {
		t.Run(release, func(t *testing.T) {
			out, err := headers(table, release, release)
			require.NoError(t, err)
			tree := fstest.MapFS{}
			for name, text := range out {
				tree[name] = &fstest.MapFile{Data: text}
			}
			c, err := header.Compare(table, release, tree)
			require.NoError(t, err)
			require.Empty(t, c.Missing)
			require.Empty(t, c.Different)
			require.Greater(t, c.Kinds.Records, 30)
		})
	}
}

// TestHeadersCompile checks that each header compiles alone and that all compile together, as C and
// as C++, without a warning, and that they declare every function of the table.
func TestHeadersCompile(t *testing.T) {
	table, err := abi.Load()
	require.NoError(t, err)
	out, err := headers(table, "", "")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, out.write(dir))
	var all, each strings.Builder
	for i, name := range headerNames(out) {
		fmt.Fprintf(&all, "#include \"%s\"\n", name)
		if i%97 == 0 || !strings.HasPrefix(name, "aclnnop/") {
			require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("one%d.c", i)), fmt.Appendf(nil, "#include \"%s\"\nint unused;\n", name), 0o600))
			fmt.Fprintf(&each, "one%d.c ", i)
		}
	}
	all.WriteString("const void *const functions[] = {\n")
	for _, f := range table.AllFunctions() {
		fmt.Fprintf(&all, "\t(const void *)%s,\n", f.Name)
	}
	all.WriteString("};\n")
	for _, name := range []string{"all.c", "all.cpp"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(all.String()), 0o600))
	}
	compile := func(compiler string, args ...string) {
		cmd := exec.Command(compiler, append([]string{"-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I."}, args...)...)
		cmd.Dir = dir
		message, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s %v\n%.2000s", compiler, args, message)
	}
	compile("gcc", append(strings.Fields(each.String()), "all.c")...)
	if _, err := exec.LookPath("g++"); err == nil {
		compile("g++", "-std=c++11", "all.cpp")
	}
}

// TestHeadersInclude checks that each header includes what CANN's header of that name includes.
func TestHeadersInclude(t *testing.T) {
	table, err := abi.Load()
	require.NoError(t, err)
	for _, version := range dumps {
		out, err := headers(table, version, "")
		require.NoError(t, err)
		dir := t.TempDir()
		require.NoError(t, out.write(dir))
		for header, use := range map[string]string{
			"hccl/hccl.h": "aclrtMalloc", "aclnn/aclnn_base.h": "aclCreateTensor", "aclnnop/aclnn_add.h": "aclCreateScalar", "aclnnop/aclnn_elu.h": "aclnnInplaceElu",
		} {
			source := fmt.Appendf(nil, "#include \"%s\"\nconst void *used = (const void *)%s;\n", header, use)
			message, err := compile(t, nil, source, "gcc", "-x", "c", "-std=c11", "-I", dir)
			require.NoError(t, err, "%s of %s: %.2000s", header, version, message)
		}
		if _, err := exec.LookPath("g++"); err != nil {
			continue
		}
		for header, use := range map[string]string{"aclnnop/aclnn_group_norm_backward.h": "std::array<int, 3>", "aclnnop/aclnn_einsum.h": "std::string"} {
			source := fmt.Appendf(nil, "#include \"%s\"\n%s used;\n", header, use)
			message, err := compile(t, nil, source, "g++", "-x", "c++", "-std=c++11", "-I", dir)
			require.NoError(t, err, "%s of %s: %.2000s", header, version, message)
		}
	}
}

// TestHeadersLeaveNames checks that programs may use plain names that only one of CANN's headers
// declares.
func TestHeadersLeaveNames(t *testing.T) {
	table, err := abi.Load()
	require.NoError(t, err)
	out, err := headers(table, "", "")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, out.write(dir))
	for source, works := range map[string]bool{
		"#include \"acl/acl.h\"\n#include \"aclnnop/aclnn_add.h\"\nint None, Mean, Sum;\n":                      true,
		"#include \"aclnnop/aclnn_binary_cross_entropy.h\"\nint values[] = {None == 0, Mean == 1, Sum == 2};\n": true,
		"#include \"aclnnop/aclnn_binary_cross_entropy.h\"\nint None;\n":                                        false,
		"#include \"acl/acl.h\"\n#include \"hccl/hccl.h\"\nint OK, COMM_LINK_VERSION, DIM_BITS_LEN;\n":          true,
		"#include \"hccl/hccl.h\"\n#include \"hccl/hccl_rank_graph.h\"\nint use(CommLink *l) { return l->linkAttr.hop + l->srcEndpointDesc.loc.device.devPhyId + (l->header.version == COMM_LINK_VERSION) + (l->dstEndpointDesc.commAddr.addr.s_addr == 0) + BUFFER_NAME_MAX_LENGTH; }\n": true,
		"#include \"acl/acl.h\"\n#include \"aclnn/acl_meta.h\"\n#include \"aclnn/opdev/op_errno.h\"\naclrtPlaceHolderInfo p = {0, MAX_MEM_UCE_INFO_ARRAY_SIZE};\nint use(int x) { return x == ACLNN_ERR_INNER_KEY_CONFLICT ? HCCL_CMD_ALLREDUCE : OK; }\n":                                true,
		"#include \"dcmi_interface_api.h\"\nunsigned use(struct dcmi_event *e) { return e->event_t.dms_event.event_id; }\n":                                                                                                                                                               true,
		// Headers of operators declare the tensors, those that CANN's build generates too.
		"#include \"aclnnop/aclnn_recurrent_gated_delta_rule.h\"\nvoid *f = (void *)aclCreateTensor;\n":    true,
		"#include \"aclnnop/aclnn_grouped_matmul_add_v2.h\"\nvoid *f = (void *)aclnnGroupedMatmulAddV2;\n": true,
	} {
		message, err := compile(t, nil, []byte(source), "gcc", "-x", "c", "-std=c11", "-I", dir)
		require.Equal(t, works, err == nil, "%s%.2000s", source, message)
	}
}

// TestHeadersOfAllReleases checks that the SDK without a release has the fields of unions that later releases added.
func TestHeadersOfAllReleases(t *testing.T) {
	table, err := abi.Load()
	require.NoError(t, err)
	const source = "#include \"acl/acl.h\"\n#include \"hccl/hccl.h\"\nint use(aclrtLaunchKernelAttrValue *v, aclrtBinaryLoadOptionValue *o) { return v->dynUBufSize + o->cpuKernelMode; }\n" +
		"_Static_assert(sizeof(HcclCommConfig) == 300, \"8.1.RC1\");\n"
	for only, works := range map[string]bool{"": true, abi.V81RC1: false} {
		out, err := headers(table, abi.V81RC1, only)
		require.NoError(t, err)
		dir := t.TempDir()
		require.NoError(t, out.write(dir))
		message, err := compile(t, nil, []byte(source), "gcc", "-x", "c", "-std=c11", "-I", dir)
		require.Equal(t, works, err == nil, "%.2000s", message)
	}
}

// TestHalfOfPrograms checks that the 16-bit types for C++ keep every bit pattern and round as this
// module does.
func TestHalfOfPrograms(t *testing.T) {
	if _, err := exec.LookPath("g++"); err != nil {
		t.Skip("needs g++:", err)
	}
	table, err := abi.Load()
	require.NoError(t, err)
	out, err := headers(table, "", "")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, out.write(dir))
	numbers := []float32{0, 1, -2.5, 65504, 65519, 65520, 1e9, 6.1e-5, 5.96e-8, 2.98e-8, 2.99e-8, 1e-9, 1.00048828125, 1.00146484375, -0.33333334, 6.0976e-5, 3.0518e-5}
	source := "#include \"aclnn/opdev/fp16_t.h\"\n#include \"opdev/bfloat16.h\"\n#include <cstdio>\nint main() {\n"
	source += "for (int i = 0; i < 65536; i++) { op::bfloat16 a, b; a.value = i; float f = a; b = f; if (f != f ? static_cast<float>(b) == static_cast<float>(b) : b.value != i) return 5; }\n"
	source += "for (int i = 0; i < 65536; i++) { op::fp16_t a, b; a.val = i; b = a.toFloat(); if ((i & 0x7c00) == 0x7c00 && (i & 0x3ff)) { if (b.toFloat() == b.toFloat()) return 1; } else if (b.val != i) return 2; }\n"
	for _, x := range numbers {
		source += fmt.Sprintf("if (op::fp16_t(%[1]vf).val != %[2]d) { std::printf(\"%[1]v is %%d\\n\", op::fp16_t(%[1]vf).val); return 3; }\n", fmt.Sprintf("%.9e", x), half.Float16FromFloat32(x))
	}
	for _, x := range append(numbers, 1.00390625, 1.01171875, 3.4e38, math.Float32frombits(0x7f7fffff)) {
		source += fmt.Sprintf("if (op::bfloat16(%[1]vf).value != %[2]d) { std::printf(\"%[1]v is %%d\\n\", op::bfloat16(%[1]vf).value); return 6; }\n", fmt.Sprintf("%.9e", x), half.BFloat16FromFloat32(x))
	}
	source += "if (sizeof(op::bfloat16) != 2 || op::bfloat16(3).value != op::bfloat16(3.0).value) return 7;\n"
	source += "op::fp16_t sum = 1.0; sum += 2; sum *= op::fp16_t(int64_t{3}); return static_cast<float>(sum) == 9 && sizeof sum == 2 ? 0 : 4;\n}\n"
	file, program := filepath.Join(dir, "half.cpp"), filepath.Join(dir, "half")
	require.NoError(t, os.WriteFile(file, []byte(source), 0o600))
	message, err := exec.Command("g++", "-std=c++11", "-Wall", "-Wextra", "-Werror", "-I"+dir, "-I"+filepath.Join(dir, "aclnn"), "-o", program, file).CombinedOutput()
	require.NoError(t, err, "%s", message)
	message, err = exec.Command(program).CombinedOutput()
	require.NoError(t, err, "%s", message)
}
