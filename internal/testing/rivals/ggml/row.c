/* One row times a weight of ggml's CPU back end, for turns.py: reads the name of a type, and answers with the seconds
 * of one product of 14336 by 4096 elements, the best of a turn.
 * gcc -O2 -I ggml/include row.c libggml.a libggml-cpu.a libggml-base.a -lstdc++ -lm -lpthread, in that order. */
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { K = 14336, M = 4096 };

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static struct ggml_cgraph *product(enum ggml_type type)
{
	struct ggml_init_params params = {.mem_size = (size_t)K * M * 8 + (16 << 20)};
	struct ggml_context *c = ggml_init(params);
	struct ggml_tensor *w = ggml_new_tensor_2d(c, type, K, M), *x = ggml_new_tensor_1d(c, GGML_TYPE_F32, K);
	float *row = malloc(K * sizeof *row);
	for (int r = 0; r < M; r++) {
		for (int i = 0; i < K; i++)
			row[i] = (float)drand48() - 0.5f;
		ggml_quantize_chunk(type, row, (char *)w->data + r * ggml_row_size(type, K), 0, 1, K, NULL);
	}
	memcpy(x->data, row, K * sizeof *row);
	free(row);
	struct ggml_cgraph *g = ggml_new_graph(c);
	ggml_build_forward_expand(g, ggml_mul_mat(c, w, x));
	return g;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		enum ggml_type type;
	} types[] = {{"float32", GGML_TYPE_F32}, {"float16", GGML_TYPE_F16}, {"int4", GGML_TYPE_Q4_0}};
	struct ggml_cgraph *graphs[3] = {NULL};
	struct ggml_threadpool_params params = ggml_threadpool_params_default(argc > 1 ? atoi(argv[1]) : 1);
	struct ggml_threadpool *pool = ggml_threadpool_new(&params);
	char name[32];
	while (scanf("%31s", name) == 1)
		for (int i = 0; i < 3; i++) {
			if (strcmp(name, types[i].name) != 0)
				continue;
			if (graphs[i] == NULL)
				graphs[i] = product(types[i].type);
			struct ggml_cplan plan = ggml_graph_plan(graphs[i], params.n_threads, pool);
			plan.work_data = malloc(plan.work_size + 1);
			double best = 1e9;
			for (double end = now() + 0.2; best == 1e9 || now() < end;) {
				const double begin = now();
				if (ggml_graph_compute(graphs[i], &plan) != GGML_STATUS_SUCCESS)
					return 1;
				const double took = now() - begin;
				best = took < best ? took : best;
			}
			free(plan.work_data);
			printf("%.9f\n", best);
			fflush(stdout);
		}
	return 0;
}
