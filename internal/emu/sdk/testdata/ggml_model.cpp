// A model of two layers with quantised weights, computed by ggml's CANN back end and by its CPU
// back end. It fails unless the logits agree. ggml.sh builds and runs it.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"

static const int64_t layers = 2, width = 256, heads = 4, inner = 512, words = 320, tokens = 7;

// The graph of the model and the tensors that it reads.
struct Model {
    ggml_context* context;
    ggml_cgraph* graph;
    ggml_tensor* logits;
    std::vector<ggml_tensor*> inputs;

    ggml_tensor* input(ggml_type type, int64_t columns, int64_t rows, const std::string& name)
    {
        ggml_tensor* t = rows ? ggml_new_tensor_2d(context, type, columns, rows) : ggml_new_tensor_1d(context, type, columns);
        ggml_set_name(t, name.c_str());
        inputs.push_back(t);
        return t;
    }

    explicit Model(ggml_type type)
    {
        context = ggml_init({ggml_tensor_overhead() * 512 + ggml_graph_overhead(), nullptr, true});
        const int64_t part = width / heads;
        ggml_tensor* positions = input(GGML_TYPE_I32, tokens, 0, "positions");
        ggml_tensor* mask = input(GGML_TYPE_F32, tokens, tokens, "mask");
        ggml_tensor* x = input(GGML_TYPE_F32, width, tokens, "x");
        auto norm = [&](ggml_tensor* t, const char* name) { return ggml_mul(context, ggml_rms_norm(context, t, 1e-6f), input(GGML_TYPE_F32, width, 0, name)); };
        auto product = [&](ggml_tensor* t, int64_t rows, const char* name) { return ggml_mul_mat(context, input(type, t->ne[0], rows, name), t); };
        auto rotated = [&](ggml_tensor* t) {
            return ggml_rope_ext(context, ggml_reshape_3d(context, t, part, heads, tokens), positions, nullptr, part, GGML_ROPE_TYPE_NEOX, 0, 1e4f, 1, 0, 1, 0, 0);
        };
        for (int64_t i = 0; i < layers; i++) {
            ggml_tensor* h = norm(x, "norm");
            ggml_tensor* q = ggml_permute(context, rotated(product(h, width, "query")), 0, 2, 1, 3);
            ggml_tensor* k = ggml_permute(context, rotated(product(h, width, "key")), 0, 2, 1, 3);
            ggml_tensor* v = ggml_reshape_3d(context, product(h, width, "value"), part, heads, tokens);
            v = ggml_cont(context, ggml_permute(context, v, 1, 2, 0, 3));
            ggml_tensor* weights = ggml_soft_max_ext(context, ggml_mul_mat(context, k, q), mask, 1 / std::sqrt(float(part)), 0);
            ggml_tensor* mixed = ggml_permute(context, ggml_mul_mat(context, v, weights), 0, 2, 1, 3);
            x = ggml_add(context, x, product(ggml_cont_2d(context, mixed, width, tokens), width, "output"));
            h = norm(x, "norm");
            ggml_tensor* gated = ggml_mul(context, ggml_silu(context, product(h, inner, "gate")), product(h, inner, "up"));
            x = ggml_add(context, x, product(gated, width, "down"));
        }
        logits = product(norm(x, "norm"), words, "head");
        graph = ggml_new_graph(context);
        ggml_build_forward_expand(graph, logits);
    }
    ~Model() { ggml_free(context); }

    // run returns the logits, with random inputs that are the same on each back end.
    std::vector<float> run(ggml_backend_t backend)
    {
        for (int i = 0; i < ggml_graph_n_nodes(graph); i++)
            if (!ggml_backend_supports_op(backend, ggml_graph_node(graph, i))) {
                std::printf("%s does not compute %s\n", ggml_backend_name(backend), ggml_op_desc(ggml_graph_node(graph, i)));
                std::exit(1);
            }
        ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(context, backend);
        std::mt19937 random(1);
        std::normal_distribution<float> normal;
        for (ggml_tensor* t : inputs) {
            std::string name = ggml_get_name(t);
            std::vector<float> values(ggml_nelements(t));
            for (float& v : values) v = normal(random) / (ggml_is_quantized(t->type) ? std::sqrt(float(t->ne[0])) : 1);
            if (name == "mask")
                for (int64_t i = 0; i < tokens * tokens; i++) values[i] = i % tokens > i / tokens ? -INFINITY : 0;
            if (name == "norm")
                for (float& v : values) v = 1 + v / 10;
            std::vector<uint8_t> bytes(ggml_nbytes(t));
            if (name == "positions") {
                for (int32_t i = 0; i < tokens; i++) std::memcpy(&bytes[4 * i], &i, 4);
            } else if (ggml_is_quantized(t->type)) {
                ggml_quantize_chunk(t->type, values.data(), bytes.data(), 0, t->ne[1], t->ne[0], nullptr);
            } else {
                std::memcpy(bytes.data(), values.data(), bytes.size());
            }
            ggml_backend_tensor_set(t, bytes.data(), 0, bytes.size());
        }
        std::vector<float> result(ggml_nelements(logits));
        for (int i = 0; i < 2; i++) // the second time a captured graph is replayed, if there are graphs
            if (ggml_backend_graph_compute(backend, graph) != GGML_STATUS_SUCCESS) std::exit(1);
        ggml_backend_tensor_get(logits, result.data(), 0, ggml_nbytes(logits));
        ggml_backend_buffer_free(buffer);
        return result;
    }
};

int main()
{
    ggml_backend_load_all();
    ggml_backend_t cann = ggml_backend_init_by_name("CANN0", nullptr), cpu = ggml_backend_init_by_name("CPU", nullptr);
    if (!cann || !cpu) {
        std::printf("a back end is missing\n");
        return 1;
    }
    // The CPU rounds what it multiplies to 8 bits, the NPU to 16.
    const double limit = 5e-4;
    int code = 0;
    for (ggml_type type : {GGML_TYPE_Q8_0, GGML_TYPE_Q4_0}) {
        std::vector<float> a = Model(type).run(cann), b = Model(type).run(cpu);
        double difference = 0, size = 0;
        for (size_t i = 0; i < a.size(); i++) {
            difference += (double(a[i]) - b[i]) * (double(a[i]) - b[i]);
            size += double(b[i]) * b[i];
        }
        bool good = difference <= limit * size;
        std::printf("%s: NMSE %.2e of %zu logits: %s\n", ggml_type_name(type), difference / size, a.size(), good ? "OK" : "FAIL");
        if (!good) code = 1;
    }
    ggml_backend_free(cann);
    ggml_backend_free(cpu);
    return code;
}
