// Package quantization reads the weights of quantised folders: as the numbers that they stand for, or as codes.
//
//	c, err := quantization.Parse(raw)      // quantization_config of config.json
//	view, err := c.View(file)              // the folder as if it had never been quantised
//	t, err := view.Tensor("model.layers.0.self_attn.q_proj.weight") // float32 [out, in]
//	codes, why, err := c.Codes(file)       // for products that read int4 or int8
//
// The methods are fp8 (blocks of DeepSeek and Qwen), compressed-tensors (int-quantized, float-quantized, naive-quantized and
// pack-quantized), gptq, awq (gemm) and mxfp4 (the experts of gpt-oss). A weight is (code − zero) · scale in float32, rounded
// once when it becomes another type; the last block of rows or columns may be a part. Libraries that multiply in the type of the scales, often bfloat16, round there, and
// transformers 5.17 divides a weight of fp8 evenly among its scales where blocks of weight_block_size do not fill it. A tensor
// is dequantised as it is read, some rows at a time.
//
// What belongs to a weight has to fit it, and a module that the configuration leaves out must not be quantised: both are
// errors with the tensor's name. A module that the folder has in plain form is read in plain form, whatever the
// configuration says. Inputs of products are not quantised here, so the scales of static inputs have no effect.
package quantization
