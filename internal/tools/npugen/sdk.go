package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"flag"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/goascend/cann/internal/abi"
)

// typesHeader contains every constant and type; the other headers include it.
const typesHeader = "acl/acl_emu_types.h"

// otherHeaders maps CANN's headers that have no function of their own in the table to the headers
// that they include.
var otherHeaders = map[string]string{
	"acl/acl_base.h":         typesHeader,
	"acl/acl_base_rt.h":      typesHeader,
	"acl/acl_rt.h":           "acl/acl.h",
	"acl/acl_rt_allocator.h": "acl/acl.h",
	"acl/acl_dump.h":         "acl/acl.h",
	"aclnn/aclnn_base.h":     "aclnn/acl_meta.h",
	"hccl/hccl_types.h":      typesHeader,
	"aclnn/opdev/op_errno.h": typesHeader,
	"cann_ops_blas_common.h": typesHeader,

	// The documentation uses both names.
	"aclnnop/aclnn_isneginf.h":   "aclnnop/aclnn_is_neg_inf.h",
	"aclnnop/aclnn_isposinf.h":   "aclnnop/aclnn_is_pos_inf.h",
	"aclnnop/aclnn_logsoftmax.h": "aclnnop/aclnn_log_softmax.h",

	// The published example program uses this name.
	"aclnnop/aclnn_nsa_select_attention_infer.h": "aclnnop/aclnn_nsa_selected_attention_infer.h",

	// CANN 9 has this operator of the custom package itself.
	"aclnnop/aclnn_recurrent_gated_delta_rule.h": "aclnn_recurrent_gated_delta_rule.h",

	// The examples of the open sources include these, where CANN's dumped headers have others.
	"aclnnop/aclnn_masked_scale.h":                    "aclnnop/aclnn_exp_masked_scale.h",
	"aclnnop/aclnn_upsample_bilinear2d_aa.h":          "aclnnop/aclnn_math.h",
	"aclnnop/aclnn_upsample_bilinear2d_aa_backward.h": "aclnnop/aclnn_math.h",

	// Some of the sources have a separate header for this operator.
	"aclnnop/aclnn_inplace_elu.h": "aclnnop/aclnn_elu.h",
	// Releases differ in whether the second version has a header of its own.
	"aclnnop/aclnn_grouped_matmul_add_v2.h": "aclnnop/aclnn_grouped_matmul_add.h",
}

// fp16 is the half-precision type of C++ programs. It has no C form.
//
//go:embed fp16.h
var fp16 string

// fp16Header is the path under which C++ programs include fp16.
const fp16Header = "aclnn/opdev/fp16_t.h"

// bfloat16 is the type of this name of C++ programs. It has no C form.
//
//go:embed bfloat16.h
var bfloat16 string

// bfloat16Header is the path under which C++ programs include bfloat16.
const bfloat16Header = "aclnn/opdev/bfloat16.h"

// securec contains the bounded copy functions that CANN ships next to its own headers.
//
//go:embed securec.h
var securec string

// includes lists what CANN's headers include beyond their types, since programs rely on it.
var includes = map[string]string{
	"hccl/hccl.h":        "hccl/hccl_comm.h",
	"hccl/hccl_comm.h":   "acl/acl.h",
	"acl/acl_base_mdl.h": "acl/acl.h",
	"acl/acl_mdl.h":      "acl/acl.h",
	"acl/acl_op.h":       "acl/acl.h",
	"cann_ops_blas.h":    "acl/acl.h",
	"cann_ops_fft.h":     "acl/acl.h",
	"aclnn/aclnn_base.h": "aclnn/acl_meta.h",
}

// wholes lists the headers that end with those of their parts, which include them in turn.
var wholes = map[string][]string{
	"acl/acl.h":        {"acl/acl_base_mdl.h", "acl/acl_mdl.h", "acl/acl_op.h", "acl/acl_rt.h"},
	"hccl/hccl_comm.h": {"hccl/hccl_types.h"},
}

// libraryHeaders lists, by operator, the C++ library headers that operators' headers include, since
// programs rely on these as well.
var libraryHeaders = map[string]string{
	"array": `
		adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool2d adaptive_max_pool3d batch_norm_backward
		fast_batch_norm_backward group_norm_backward logsigmoid_backward logsoftmax_backward softmax_backward`,
	"string": `
		all_gather_matmul all_to_all_all_gather_batch_matmul allto_allv_grouped_mat_mul
		batch_matmul_reduce_scatter_all_to_all distribute_barrier distribute_barrier_v2 einsum
		elastic_receivable_info_collect fused_quant_matmul fused_quant_matmul_weight_nz grouped_mat_mul_allto_allv
		matmul_all_reduce matmul_all_reduce_add_rms_norm matmul_all_reduce_v2 matmul_reduce_scatter
		moe_distribute_buffer_reset moe_distribute_combine moe_distribute_combine_add_rms_norm
		moe_distribute_combine_add_rms_norm_v2 moe_distribute_combine_v2 moe_distribute_combine_v3
		moe_distribute_dispatch moe_distribute_dispatch_v2 moe_distribute_dispatch_v3 moe_update_expert
		quant_matmul_all_reduce quant_matmul_all_reduce_add_rms_norm quant_matmul_all_reduce_v2
		quant_matmul_all_reduce_v3 quant_matmul_dequant quant_matmul_v5 weight_quant_matmul_all_reduce
		weight_quant_matmul_all_reduce_add_rms_norm`,
}

// libraryIncludes returns the #include lines of a header for C++ programs.
func libraryIncludes(header string) (text string) {
	for _, library := range slices.Sorted(maps.Keys(libraryHeaders)) {
		for _, name := range strings.Fields(libraryHeaders[library]) {
			if header == "aclnnop/aclnn_"+name+".h" {
				text += "#include <" + library + ">\n"
			}
		}
	}
	return text
}

// runSDK writes CANN's headers for C and C++ programs, and the sources of its libraries.
func runSDK(args []string) error {
	set := flag.NewFlagSet("npugen sdk", flag.ContinueOnError)
	dir := set.String("out", "", "folder for the headers")
	stubDir := set.String("stubs", "", "folder for the C files of the libraries; \"\" writes none")
	version := set.String("version", "", "release of CANN whose declarations to write where versions differ; \"\" is the newest")
	libraries := set.String("libraries", "", "release of CANN whose libraries to write, with the functions that it has; \"\" is all together")
	if err := set.Parse(args); err != nil {
		return err
	}
	if *dir == "" {
		return fmt.Errorf("sdk: -out is missing")
	}
	for _, release := range []string{*version, *libraries} {
		if release != "" && !slices.Contains(abi.Releases(), release) {
			return fmt.Errorf("sdk: %s: the releases of CANN are %s", release, strings.Join(abi.Releases(), ", "))
		}
	}
	t, err := abi.Load()
	if err != nil {
		return err
	}
	out, err := headers(t, *version, *libraries)
	if err != nil {
		return err
	}
	if *stubDir != "" {
		if err := stubs(t, *libraries).write(*stubDir); err != nil {
			return err
		}
	}
	return out.write(*dir)
}

// headers returns a file for each of CANN's headers, with the functions that the table assigns to
// it: those of the release only, or all if that is "".
func headers(t *abi.Table, version, only string) (files, error) {
	out := files{}
	if only == "" {
		wide := *t
		wide.Records = widest(t.Records)
		t = &wide
	}
	var types bytes.Buffer
	everywhere := *t
	everywhere.Constants = slices.DeleteFunc(slices.Clone(t.Constants), func(c abi.Constant) bool { return headerOf(c) != "" })
	enums := enumerators(&everywhere, version)
	types.WriteString(standardTypes)
	declareEnums(&types, enums)
	if err := declareTypes(&types, t, version); err != nil {
		return nil, err
	}
	declareMacros(&types, enums)
	out[typesHeader] = guarded(typesHeader, types.String())
	functions := map[string][]string{}
	for _, f := range t.AllFunctions() {
		if !has(&f, only) {
			continue
		}
		params := f.Params
		if p, ok := f.Declared(version); ok {
			params = p
		}
		functions[f.Header] = append(functions[f.Header], prototype(f, params)+";\n")
	}
	functions["hccl/hccl_comm.h"] = append(functions["hccl/hccl_comm.h"], configInit(recordsAt(t, version)))
	for name, list := range functions {
		include := typesHeader
		if more := includes[name]; more != "" {
			include = more
		} else if strings.HasPrefix(name, "aclnnop/") || strings.HasPrefix(name, "aclnn_") {
			include = "aclnn/acl_meta.h"
		}
		text := fmt.Sprintf("#include \"%s\"\n\n%s#ifdef __cplusplus\n%sextern \"C\" {\n#endif\n\n%s\n#ifdef __cplusplus\n}\n#endif\n",
			relative(name, include), headerEnum(t, name)+headerConstants(t, name), libraryIncludes(name), strings.Join(list, ""))
		for _, part := range wholes[name] {
			text += fmt.Sprintf("#include \"%s\"\n", relative(name, part))
		}
		out[name] = guarded(name, text)
	}
	for name, include := range otherHeaders {
		if out[name] == nil {
			out[name] = guarded(name, fmt.Sprintf("#include \"%s\"\n\n%s", relative(name, include), headerConstants(t, name)))
		}
	}
	out[fp16Header], out[bfloat16Header] = guarded(fp16Header, fp16), guarded(bfloat16Header, bfloat16)
	out["securec.h"] = guarded("securec.h", securec)
	return out, nil
}

// widest returns records without the older forms that have a part of the newest one's fields in the same size: programs of
// each release find their fields in the newest.
func widest(records []abi.Record) []abi.Record {
	records = slices.Clone(records)
	for i := range records {
		r := &records[i]
		r.Older = slices.DeleteFunc(slices.Clone(r.Older), func(old abi.RecordForm) bool {
			return old.Size == r.Size && !slices.ContainsFunc(old.Fields, func(f abi.Field) bool { return !slices.Contains(r.Fields, f) })
		})
	}
	return records
}

// recordsAt returns the records as a release has them; those that it lacks, and all of none, as in the newest one.
func recordsAt(t *abi.Table, version string) []abi.Record {
	records := slices.Clone(t.Records)
	for i := range records {
		if f, ok := records[i].At(version); ok {
			records[i].Size, records[i].Fields = f.Size, f.Fields
		}
	}
	return records
}

// unsetFields holds the fields of HcclCommConfig that are not 0 while they are unset, with the values that say so.
var unsetFields = map[string]string{
	"hcclBufferSize": "HCCL_COMM_BUFFSIZE_CONFIG_NOT_SET", "hcclDeterministic": "HCCL_COMM_DETERMINISTIC_CONFIG_NOT_SET",
	"hcclRdmaTrafficClass": "HCCL_COMM_TRAFFIC_CLASS_CONFIG_NOT_SET", "hcclRdmaServiceLevel": "HCCL_COMM_SERVICE_LEVEL_CONFIG_NOT_SET",
	"hcclExecTimeOut": "HCCL_COMM_EXECTIMEOUT_CONFIG_NOT_SET", "hcclQos": "HCCL_COMM_QOS_CONFIG_NOT_SET",
	"hcclSymWinMaxMemSizePerRank": "HCCL_DEFAULT_SYMMETRIC_MEMORY_STRIDE", "hcclChannelSqDepth": "HCCL_COMM_SQ_DEPTH_CONFIG_NOT_SET",
}

// configInit returns the function of HCCL's header that no library has: it fills the struct of the header's release.
func configInit(records []abi.Record) string {
	var b strings.Builder
	b.WriteString(`
#include <string.h>

static inline void HcclCommConfigInit(HcclCommConfig *config)
{
	struct { uint64_t size; uint32_t magic, version; } head = {sizeof(HcclCommConfig), HCCL_COMM_CONFIG_MAGIC_WORD, HCCL_COMM_CONFIG_VERSION};
	if (!config)
		return;
	memset(config, 0, sizeof *config);
	memcpy(config->reserved, &head, sizeof head);
`)
	for _, r := range records {
		for _, f := range r.Fields {
			if value := unsetFields[f.Name]; r.Name == "HcclCommConfigDef" && value != "" {
				fmt.Fprintf(&b, "\tconfig->%s = (%s)%s;\n", f.Name, f.Type, value)
			}
		}
	}
	b.WriteString("}\n")
	return b.String()
}

// ownEnums holds enums with plain names of constants, such as None and L1, by the header that CANN declares them in
// alone: programs that do not include it may have such names of their own.
var ownEnums = map[string]string{"Reduction": "aclnnop/aclnn_binary_cross_entropy.h", "aclplatformLocalMemType": "acl/acl_platform.h"}

// headerOf returns the header that alone declares a constant, "" for the common one.
func headerOf(c abi.Constant) string { return cmp.Or(c.Header, ownEnums[c.Enum]) }

// headerEnum returns the declaration of the enum that a header alone declares, and "" for other headers.
func headerEnum(t *abi.Table, header string) string {
	var members []string
	for _, c := range t.Constants {
		if headerOf(c) == header && c.Enum != "" {
			members = append(members, fmt.Sprintf("\t%s = %s", c.Name, c.Value))
		}
	}
	for enum, of := range ownEnums {
		if of == header {
			return "typedef enum " + enum + " {\n" + strings.Join(members, ",\n") + "\n} " + enum + ";\n\n"
		}
	}
	return ""
}

// headerConstants returns the constants of no enum that a header alone declares. They are enumerators, which unlike
// macros leave programs the name in scopes of their own.
func headerConstants(t *abi.Table, header string) (text string) {
	for _, c := range t.Constants {
		if c.Header == header {
			text += fmt.Sprintf("enum { %s = %s };\n", c.Name, c.Value)
		}
	}
	return text
}

// guarded adds an include guard to declarations.
func guarded(name, text string) []byte {
	guard := "CANN_EMU_" + strings.ToUpper(strings.NewReplacer("/", "_", ".", "_", "-", "_").Replace(name))
	return []byte(fmt.Sprintf("%s// CANN's interface in declarations of our own: see github.com/goascend/cann.\n#ifndef %s\n#define %s\n\n%s\n#endif\n",
		generatedMark, guard, guard, text))
}

// relative returns the path from one header to another.
func relative(from, to string) string {
	if path.Dir(from) == path.Dir(to) {
		return path.Base(to)
	}
	return strings.Repeat("../", strings.Count(from, "/")) + to
}

// headerNames lists the headers of a set, sorted.
func headerNames(out files) []string {
	names := make([]string, 0, len(out))
	for name := range out {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
